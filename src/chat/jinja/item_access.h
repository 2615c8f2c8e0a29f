#pragma once

// Shared by filters over sequences: attribute paths, sort keys, a stable sort.

#include <vector>

#include "chat/jinja/interpreter.h"

namespace kvkeep::chat::jinja {

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
