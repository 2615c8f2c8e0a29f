#pragma once

// Filters, tests, methods and functions that templates find by name, and the reading of their arguments.
//
// To add one: write it in the file of its kind, and name it in the table at that file's end. The list is that of
// Python's jinja2 and of the methods of str, dict, list and tuple, without those that are random, depend on the clock
// or change a value. The sandbox for which chat templates are written has no methods that change lists and dicts.

#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "chat/jinja/interpreter.h"

namespace kvkeep::chat::jinja {

// Null if there is none.
Builtin find_filter(std::string_view name);
Builtin find_test(std::string_view name);
Builtin find_function(std::string_view name);
Builtin find_dict_method(std::string_view name);
// A method of a text, list, number ... bound to it.
std::optional<Value> find_attribute(Interpreter& in, const Value& object, std::string_view name);

// The tables, one per file.
std::span<const NamedBuiltin> text_filters();
std::span<const NamedBuiltin> number_filters();
std::span<const NamedBuiltin> sequence_filters();
std::span<const NamedBuiltin> text_methods();

// Arguments by the names of the parameters, in their order; null: not given. Fails on too many, on unknown names, and
// if one of the first `required` is missing.
using Given = std::span<const Value*>;
void place(std::string_view function, const Arguments& arguments, std::span<const std::string_view> names,
           std::size_t required, Given given);
template <std::size_t kCount>
std::array<const Value*, kCount> place(std::string_view function, const Arguments& arguments,
                                       const std::array<std::string_view, kCount>& names, std::size_t required = 0) {
  std::array<const Value*, kCount> given{};
  place(function, arguments, names, required, given);
  return given;
}

// The expected kind of an argument, or a failure. Absent (null) ones have the fallback.
std::int64_t integer_argument(const Value* argument, std::int64_t fallback);
bool bool_argument(const Value* argument, bool fallback);
Text text_argument(const Value& argument);

// ---- shared by filters over sequences: attribute paths, sort keys, a stable sort ----

// `path`: "a.b.0" or a number. `fallback` replaces an undefined value on the way.
Value attribute_path(Interpreter& in, const Value& item, const Value& path, const Value* fallback = nullptr);

// The keys by which items are compared.
struct SortKey {
  const Value* attribute;  // null or none: the item itself
  bool case_sensitive;
  Value of(Interpreter& in, const Value& item) const;
  // As the filter `sort` does: a list of keys, one for each attribute between commas. Lists are compared from the first
  // key on that differs: equal ones need no order (two times none, the same dict twice).
  Value all_of(Interpreter& in, const Value& item) const;
};

// Merges: unlike the library's sort it comes to an end with any comparison, also one that contradicts itself (NaN).
template <typename Item, typename Less>
void sort_stably(std::vector<Item>& items, Less less) {
  std::vector<Item> merged(items.size());
  for (std::size_t width = 1; width < items.size(); width *= 2) {
    for (std::size_t begin = 0; begin < items.size(); begin += 2 * width) {
      const std::size_t middle = begin + width < items.size() ? begin + width : items.size();
      const std::size_t end = middle + width < items.size() ? middle + width : items.size();
      std::size_t left = begin;
      std::size_t right = middle;
      for (std::size_t to = begin; to < end; ++to) {
        const bool take_right = left == middle || (right < end && less(items[right], items[left]));
        merged[to] = take_right ? items[right++] : items[left++];
      }
    }
    items.swap(merged);
  }
}

}  // namespace kvkeep::chat::jinja
