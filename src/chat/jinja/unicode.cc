#include "chat/jinja/unicode.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace kvkeep::chat::jinja {
namespace {

using CodeRange = std::pair<char32_t, char32_t>;

template <std::size_t kSize>
bool lies_in(const std::array<CodeRange, kSize>& ranges, char32_t code) {
  const auto place = std::ranges::upper_bound(ranges, code, {}, &CodeRange::first);
  return place != ranges.begin() && code <= std::prev(place)->second;
}

constexpr std::array<CodeRange, 10> kSpaces = {{{0x09, 0x0D},
                                                {0x1C, 0x20},
                                                {0x85, 0x85},
                                                {0xA0, 0xA0},
                                                {0x1680, 0x1680},
                                                {0x2000, 0x200A},
                                                {0x2028, 0x2029},
                                                {0x202F, 0x202F},
                                                {0x205F, 0x205F},
                                                {0x3000, 0x3000}}};
// Controls, separators, format characters, surrogates, private use.
constexpr std::array<CodeRange, 20> kUnprintable = {
    {{0x00, 0x1F},     {0x7F, 0xA0},     {0xAD, 0xAD},       {0x600, 0x605},     {0x61C, 0x61C},
     {0x6DD, 0x6DD},   {0x70F, 0x70F},   {0x1680, 0x1680},   {0x180E, 0x180E},   {0x2000, 0x200F},
     {0x2028, 0x202F}, {0x205F, 0x206F}, {0x3000, 0x3000},   {0xD800, 0xF8FF},   {0xFEFF, 0xFEFF},
     {0xFFF0, 0xFFFB}, {0xFFFE, 0xFFFF}, {0x1D173, 0x1D17A}, {0xE0000, 0xE00FF}, {0xE01F0, 0x10FFFF}}};
// Letters without case, the scripts that matter: the rest of Latin to Arabic, Indic, Thai, Hangul, kana, Han.
constexpr std::array<CodeRange, 12> kLetters = {{{0xAA, 0xAA},
                                                 {0xBA, 0xBA},
                                                 {0x180, 0x24F},
                                                 {0x250, 0x2AF},
                                                 {0x5D0, 0x5EA},
                                                 {0x620, 0x64A},
                                                 {0x904, 0x939},
                                                 {0xE01, 0xE30},
                                                 {0x3041, 0x3096},
                                                 {0x30A1, 0x30FA},
                                                 {0x4E00, 0x9FFF},
                                                 {0xAC00, 0xD7A3}}};

// Pairs of letters side by side, the upper one even (or odd).
bool is_paired_even(char32_t code) {
  return (code >= 0x100 && code <= 0x137 && code != 0x130 && code != 0x131) || (code >= 0x14A && code <= 0x177) ||
         (code >= 0x460 && code <= 0x481) || (code >= 0x48A && code <= 0x4BF) || (code >= 0x4D0 && code <= 0x52F) ||
         (code >= 0x1E00 && code <= 0x1E95) || (code >= 0x1EA0 && code <= 0x1EFF);
}
bool is_paired_odd(char32_t code) {
  return (code >= 0x139 && code <= 0x148) || (code >= 0x179 && code <= 0x17E) || (code >= 0x4C1 && code <= 0x4CE);
}

}  // namespace

Character character_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[at + i]); };
  const std::uint8_t first = byte(0);
  if (first < 0x80) return {first, 1};
  const std::size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  const Character damaged = {char32_t{0xDC00} + first, 1};
  if (first < 0xC2 || first > 0xF4 || size > text.size() - at) return damaged;
  char32_t code = first & (0xFF >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return damaged;
    code = code << 6 | (byte(i) & 0x3F);
  }
  const bool overlong = (size == 3 && code < 0x800) || (size == 4 && code < 0x10000);
  if (overlong || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return damaged;
  return {code, size};
}

void append_character(std::string& text, char32_t code) {
  const auto add = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (code < 0x80) return add(code);
  if (code >= 0xDC80 && code <= 0xDCFF) return add(code - 0xDC00);
  if (code < 0x800) {
    add(0xC0 | code >> 6);
  } else {
    if (code < 0x10000) {
      add(0xE0 | code >> 12);
    } else {
      add(0xF0 | code >> 18);
      add(0x80 | (code >> 12 & 0x3F));
    }
    add(0x80 | (code >> 6 & 0x3F));
  }
  add(0x80 | (code & 0x3F));
}

bool is_ascii(std::string_view text) {
  constexpr std::uint64_t kHighBits = 0x8080808080808080;
  std::uint64_t seen = 0;
  while (text.size() >= sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data(), sizeof(word));
    seen |= word;
    text.remove_prefix(sizeof(word));
  }
  for (const char byte : text) seen |= static_cast<std::uint8_t>(byte);
  return (seen & kHighBits) == 0;
}

std::size_t count_characters(std::string_view text) {
  std::size_t count = 0;
  for (std::size_t at = 0; at < text.size(); at += character_at(text, at).bytes) ++count;
  return count;
}

std::size_t offset_of(std::string_view text, std::size_t index) {
  std::size_t at = 0;
  for (; index > 0 && at < text.size(); --index) at += character_at(text, at).bytes;
  return at;
}

bool is_space(char32_t code) { return lies_in(kSpaces, code); }
bool is_upper(char32_t code) { return to_lower(code) != code; }
bool is_lower(char32_t code) {
  return to_upper(code) != code || code == 0xDF || code == 0xAA || code == 0xBA || code == 0x138 || code == 0x149;
}
bool is_alpha(char32_t code) { return is_upper(code) || is_lower(code) || lies_in(kLetters, code); }
bool is_digit(char32_t code) {
  return (code >= '0' && code <= '9') || code == 0xB2 || code == 0xB3 || code == 0xB9 ||
         (code >= 0x660 && code <= 0x669);
}
bool is_printable(char32_t code) { return !lies_in(kUnprintable, code); }

char32_t to_upper(char32_t code) {
  if (code < 0x80) return code >= 'a' && code <= 'z' ? code - 32 : code;
  if (code == 0xB5) return 0x39C;
  if (code == 0xFF) return 0x178;
  if (code == 0x131) return 'I';
  if (code == 0x17F) return 'S';
  if (code >= 0xE0 && code <= 0xFE && code != 0xF7) return code - 32;
  if (is_paired_even(code)) return code & ~char32_t{1};
  if (is_paired_odd(code)) return (code & 1) == 0 ? code - 1 : code;
  if (code == 0x3AC) return 0x386;
  if (code >= 0x3AD && code <= 0x3AF) return code - 37;
  if (code == 0x3C2) return 0x3A3;
  if (code >= 0x3B1 && code <= 0x3CB) return code - 32;
  if (code >= 0x430 && code <= 0x44F) return code - 32;
  if (code >= 0x450 && code <= 0x45F) return code - 80;
  return code;
}

char32_t to_lower(char32_t code) {
  if (code < 0x80) return code >= 'A' && code <= 'Z' ? code + 32 : code;
  if (code == 0x178) return 0xFF;
  if (code >= 0xC0 && code <= 0xDE && code != 0xD7) return code + 32;
  if (is_paired_even(code)) return code | 1;
  if (is_paired_odd(code)) return (code & 1) == 1 ? code + 1 : code;
  if (code == 0x386) return 0x3AC;
  if (code >= 0x388 && code <= 0x38A) return code + 37;
  if (code >= 0x391 && code <= 0x3AB && code != 0x3A2) return code + 32;
  if (code >= 0x410 && code <= 0x42F) return code + 32;
  if (code >= 0x400 && code <= 0x40F) return code + 80;
  return code;
}

Core strip_space(std::string_view text, bool front, bool back) {
  std::size_t begin = 0;
  std::size_t end = text.size();
  while (front && begin < end) {
    const Character character = character_at(text, begin);
    if (!is_space(character.code)) break;
    begin += character.bytes;
  }
  while (back && end > begin) {
    std::size_t last = end - 1;
    while (last > begin && end - last < 4 && (static_cast<std::uint8_t>(text[last]) & 0xC0) == 0x80) --last;
    const Character character = character_at(text.substr(0, end), last);
    if (!is_space(character.code)) break;
    end = last;
  }
  return {begin, end - begin};
}

Core strip_characters(std::string_view text, std::string_view characters, bool front, bool back) {
  const auto listed = [&](std::string_view one) { return characters.find(one) != std::string_view::npos; };
  std::size_t begin = 0;
  std::size_t end = text.size();
  while (front && begin < end) {
    const std::size_t bytes = character_at(text, begin).bytes;
    if (!listed(text.substr(begin, bytes))) break;
    begin += bytes;
  }
  while (back && end > begin) {
    std::size_t last = end - 1;
    while (last > begin && end - last < 4 && (static_cast<std::uint8_t>(text[last]) & 0xC0) == 0x80) --last;
    if (last + character_at(text.substr(0, end), last).bytes != end) last = end - 1;
    if (!listed(text.substr(last, end - last))) break;
    end = last;
  }
  return {begin, end - begin};
}

}  // namespace kvkeep::chat::jinja
