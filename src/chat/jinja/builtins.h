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

}  // namespace kvkeep::chat::jinja
