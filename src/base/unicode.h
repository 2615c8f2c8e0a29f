#pragma once

// Characters of UTF-8 text: read, written, classified and changed in case by utf8proc's tables. The only user of that
// library, so that all rooms agree on what a character is.
//
// A byte that belongs to no character counts as one by itself, U+DC80 to U+DCFF, and is appended as the same byte
// again.

#include <cstddef>
#include <string>
#include <string_view>

namespace kvkeep {

struct Character {
  char32_t code;
  std::size_t bytes;
};

// Precondition: at < text.size().
Character character_at(std::string_view text, std::size_t at);
// The one that ends at `end`. Precondition: 0 < end <= text.size().
Character character_before(std::string_view text, std::size_t end);
void append_character(std::string& text, char32_t code);
inline bool is_stray_byte(char32_t code) { return code >= 0xDC80 && code <= 0xDCFF; }

// Returns what Python's str.isspace, str.isalpha ... return of one character. utf8proc lacks three properties that
// these read for rare characters: is_upper and is_lower miss squared letters and some modifier letters, is_digit misses
// digits in parentheses or with a full stop, and is_numeric misses Han characters that stand for numbers.
bool is_space(char32_t code);
bool is_alpha(char32_t code);
bool is_decimal(char32_t code);
bool is_digit(char32_t code);
bool is_numeric(char32_t code);
bool is_printable(char32_t code);  // repr() writes it as it is
bool is_upper(char32_t code);
bool is_lower(char32_t code);
bool is_title(char32_t code);  // one character that shows an upper letter before a lower one
inline bool is_cased(char32_t code) { return is_upper(code) || is_lower(code) || is_title(code); }
// Accents, apostrophes and the like, which leave a word as it is when its letters change case.
bool is_case_ignorable(char32_t code);

// Append what str.upper, .title (of the first letter), .lower and .casefold make of one character: often one, at most
// three. That a sigma at the end of a word has another lower case is the caller's business.
void append_upper(std::string& text, char32_t code);
void append_title(std::string& text, char32_t code);
void append_lower(std::string& text, char32_t code);
void append_folded(std::string& text, char32_t code);

// How many columns of a terminal it takes: 0, 1 or 2.
int columns_of_character(char32_t code);

}  // namespace kvkeep
