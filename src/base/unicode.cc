#include "base/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

namespace kvkeep {
namespace {

utf8proc_int32_t number(char32_t code) { return static_cast<utf8proc_int32_t>(code); }
char32_t upper_of(char32_t code) { return static_cast<char32_t>(utf8proc_toupper(number(code))); }
char32_t title_of(char32_t code) { return static_cast<char32_t>(utf8proc_totitle(number(code))); }
char32_t lower_of(char32_t code) { return static_cast<char32_t>(utf8proc_tolower(number(code))); }

constexpr char32_t kCapitalIWithDot = 0x130;
constexpr char32_t kSmallIota = 0x3B9;
constexpr char32_t kIotaBelow = 0x345;

// One character without its case. The longest in Unicode has three.
class Folded {
 public:
  explicit Folded(char32_t code) {
    const auto size = utf8proc_decompose_char(number(code), codes_.data(), codes_.size(), UTF8PROC_CASEFOLD, nullptr);
    size_ = size < 0 ? 0 : std::min(static_cast<std::size_t>(size), codes_.size());
  }
  std::span<const utf8proc_int32_t> codes() const { return {codes_.data(), size_}; }

 private:
  std::array<utf8proc_int32_t, 8> codes_{};
  std::size_t size_;
};

// utf8proc maps one character to one. What becomes several (ß, ligatures, letters with accents that have no upper form
// of their own) is taken from the folded form, which has the same letters in lower case.
bool becomes_several(const Folded& folded, char32_t code) {
  return folded.codes().size() > 1 && utf8proc_category(number(code)) != UTF8PROC_CATEGORY_LU;
}

bool is_continuation(char byte) { return (static_cast<std::uint8_t>(byte) & 0xC0) == 0x80; }

}  // namespace

Character character_at(std::string_view text, std::size_t at) {
  const auto first = static_cast<std::uint8_t>(text[at]);
  if (first < 0x80) return {first, 1};
  utf8proc_int32_t code = 0;
  const auto bytes = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at),
                                      static_cast<utf8proc_ssize_t>(text.size() - at), &code);
  if (bytes <= 0) return {char32_t{0xDC00} + first, 1};
  return {static_cast<char32_t>(code), static_cast<std::size_t>(bytes)};
}

Character character_before(std::string_view text, std::size_t end) {
  constexpr std::size_t kMostBytes = 4;
  std::size_t begin = end - 1;
  while (begin > 0 && end - begin < kMostBytes && is_continuation(text[begin])) --begin;
  const Character found = character_at(text.substr(0, end), begin);
  if (begin + found.bytes == end) return found;
  return {char32_t{0xDC00} + static_cast<std::uint8_t>(text[end - 1]), 1};
}

void append_character(std::string& text, char32_t code) {
  if (code < 0x80) return text.push_back(static_cast<char>(code));
  if (is_stray_byte(code)) return text.push_back(static_cast<char>(code - 0xDC00));
  std::array<utf8proc_uint8_t, 4> bytes{};
  const auto size = utf8proc_encode_char(number(code), bytes.data());
  text.append(reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(size));
}

bool is_space(char32_t code) {
  if (code < 0x80) return (code >= 0x09 && code <= 0x0D) || (code >= 0x1C && code <= 0x20);
  const utf8proc_property_t& property = *utf8proc_get_property(number(code));
  return property.category == UTF8PROC_CATEGORY_ZS || property.bidi_class == UTF8PROC_BIDI_CLASS_WS ||
         property.bidi_class == UTF8PROC_BIDI_CLASS_B || property.bidi_class == UTF8PROC_BIDI_CLASS_S;
}

bool is_alpha(char32_t code) {
  if (code < 0x80) return (code | 0x20) >= 'a' && (code | 0x20) <= 'z';
  const auto category = utf8proc_category(number(code));
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool is_decimal(char32_t code) { return utf8proc_category(number(code)) == UTF8PROC_CATEGORY_ND; }

bool is_digit(char32_t code) {
  const utf8proc_property_t& property = *utf8proc_get_property(number(code));
  if (property.category != UTF8PROC_CATEGORY_NO) return property.category == UTF8PROC_CATEGORY_ND;
  // Raised, lowered or in a circle, one digit is one.
  const bool is_shape = property.decomp_type == UTF8PROC_DECOMP_TYPE_SUPER ||
                        property.decomp_type == UTF8PROC_DECOMP_TYPE_SUB ||
                        property.decomp_type == UTF8PROC_DECOMP_TYPE_CIRCLE;
  if (!is_shape) return false;
  std::array<utf8proc_int32_t, 8> codes{};
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT);
  const auto size = utf8proc_decompose_char(number(code), codes.data(), codes.size(), options, nullptr);
  return size == 1 && codes[0] >= '0' && codes[0] <= '9';
}

bool is_numeric(char32_t code) {
  const auto category = utf8proc_category(number(code));
  return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

bool is_printable(char32_t code) {
  if (code < 0x80) return code >= 0x20 && code != 0x7F;
  const auto category = utf8proc_category(number(code));
  const bool is_other = category >= UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_CN;  // Z*, C*
  return !is_other;
}

bool is_upper(char32_t code) {
  if (code < 0x80) return code >= 'A' && code <= 'Z';
  const auto category = utf8proc_category(number(code));
  return category == UTF8PROC_CATEGORY_LU || (category != UTF8PROC_CATEGORY_LT && lower_of(code) != code);
}

bool is_lower(char32_t code) {
  if (code < 0x80) return code >= 'a' && code <= 'z';
  const utf8proc_property_t& property = *utf8proc_get_property(number(code));
  if (property.category == UTF8PROC_CATEGORY_LL) return true;
  if (property.category == UTF8PROC_CATEGORY_LM || property.category == UTF8PROC_CATEGORY_LO) {
    return property.decomp_type == UTF8PROC_DECOMP_TYPE_SUPER || property.decomp_type == UTF8PROC_DECOMP_TYPE_SUB;
  }
  return property.category != UTF8PROC_CATEGORY_LT && upper_of(code) != code;
}

bool is_title(char32_t code) { return utf8proc_category(number(code)) == UTF8PROC_CATEGORY_LT; }

bool is_case_ignorable(char32_t code) {
  // Word_Break's MidLetter, MidNumLet and Single_Quote, which utf8proc does not know.
  constexpr std::u32string_view kWithinWords =
      U"'.:\u00B7\u0387\u055F\u05F4\u2018\u2019\u2024\u2027\uFE13\uFE52\uFE55\uFF07\uFF0E\uFF1A";
  if (kWithinWords.contains(code)) return true;
  switch (utf8proc_category(number(code))) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK: return true;
    default: return false;
  }
}

void append_upper(std::string& text, char32_t code) {
  if (code < 0x80) return text.push_back(static_cast<char>(is_lower(code) ? code - 0x20 : code));
  const Folded folded(code);
  if (!becomes_several(folded, code)) return append_character(text, upper_of(code));
  for (const utf8proc_int32_t one : folded.codes()) append_character(text, upper_of(static_cast<char32_t>(one)));
}

void append_title(std::string& text, char32_t code) {
  if (code < 0x80) return append_upper(text, code);
  const char32_t one_for_one = title_of(code);
  const Folded folded(code);
  if (is_title(one_for_one) || !becomes_several(folded, code)) return append_character(text, one_for_one);
  bool is_begun = false;
  for (std::size_t i = 0; i < folded.codes().size(); ++i) {
    const auto one = static_cast<char32_t>(folded.codes()[i]);
    // After a capital the iota goes back below it.
    const bool goes_below = one == kSmallIota && i + 1 == folded.codes().size();
    append_character(text, goes_below ? kIotaBelow : is_begun ? one : title_of(one));
    is_begun |= title_of(one) != one;
  }
}

void append_lower(std::string& text, char32_t code) {
  if (code < 0x80) return text.push_back(static_cast<char>(is_upper(code) ? code + 0x20 : code));
  if (code == kCapitalIWithDot) return append_folded(text, code);  // the one character whose lower case is two
  append_character(text, lower_of(code));
}

void append_folded(std::string& text, char32_t code) {
  if (code < 0x80) return append_lower(text, code);
  if (is_stray_byte(code)) return append_character(text, code);
  const Folded folded(code);
  for (const utf8proc_int32_t one : folded.codes()) append_character(text, static_cast<char32_t>(one));
}

int columns_of_character(char32_t code) { return utf8proc_charwidth(number(code)); }

}  // namespace kvkeep
