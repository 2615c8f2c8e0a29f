#pragma once

// Characters of a text (base/unicode.h), counted and stripped as Python's string methods do.

#include <cstddef>
#include <string_view>

#include "base/unicode.h"

namespace kvkeep::chat::jinja {

bool is_ascii(std::string_view text);
std::size_t count_characters(std::string_view text);
// Where character number `index` begins; text.size() beyond the last.
std::size_t offset_of(std::string_view text, std::size_t index);

// Without white space at the ends; how many bytes go at the front, and how many stay.
struct Core {
  std::size_t begin;
  std::size_t size;
};
Core strip_space(std::string_view text, bool front, bool back);
// Without any of `characters` at the ends.
Core strip_characters(std::string_view text, std::string_view characters, bool front, bool back);

}  // namespace kvkeep::chat::jinja
