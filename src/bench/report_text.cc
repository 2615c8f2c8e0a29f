#include "bench/report_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace kvkeep::bench {
namespace {

constexpr char32_t kReplacement = 0xFFFD;
constexpr std::string_view kEllipsis = "…";

struct Span {
  char32_t first;
  char32_t last;
};

bool within(char32_t character, const auto& spans) {
  return std::any_of(spans.begin(), spans.end(),
                     [character](Span span) { return span.first <= character && character <= span.last; });
}

// Controls of C0 and C1, marks that turn the direction of text, the byte order mark and what is no character.
constexpr std::array kUnprintable{Span{0x00, 0x1F},     Span{0x7F, 0x9F},     Span{0x061C, 0x061C},
                                  Span{0x200E, 0x200F}, Span{0x202A, 0x202E}, Span{0x2066, 0x2069},
                                  Span{0xFEFF, 0xFEFF}, Span{0xFFFE, 0xFFFF}};
// As terminals draw them.
constexpr std::array kWide{Span{0x1100, 0x115F},   Span{0x2E80, 0x303E},   Span{0x3041, 0xA4CF},
                           Span{0xAC00, 0xD7A3},   Span{0xF900, 0xFAFF},   Span{0xFE30, 0xFE6F},
                           Span{0xFF00, 0xFF60},   Span{0xFFE0, 0xFFE6},   Span{0x1F300, 0x1F64F},
                           Span{0x1F680, 0x1F6FF}, Span{0x1F900, 0x1F9FF}, Span{0x20000, 0x3FFFD}};
constexpr std::array kCombining{Span{0x0300, 0x036F}, Span{0x200B, 0x200D}, Span{0xFE00, 0xFE0F}};

// Bytes of the sequence that this byte begins; 0: none begins so.
std::size_t sequence_bytes(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  return lead >= 0xF0 && lead <= 0xF4 ? 4 : 0;
}

bool is_scalar_of(char32_t character, std::size_t bytes) {
  constexpr std::array<char32_t, 5> kSmallest{0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = character >= 0xD800 && character <= 0xDFFF;
  return character >= kSmallest[bytes] && character <= 0x10FFFF && !surrogate;
}

// Takes one character off the front; a byte that begins none is U+FFFD. Precondition: there is a byte.
char32_t take_character(std::string_view& rest) {
  const auto lead = static_cast<unsigned char>(rest.front());
  const std::size_t bytes = sequence_bytes(lead);
  char32_t character = bytes == 1 ? lead : lead & (0x7F >> bytes);
  bool whole = bytes != 0 && bytes <= rest.size();
  for (std::size_t i = 1; whole && i < bytes; ++i) {
    const auto next = static_cast<unsigned char>(rest[i]);
    whole = (next & 0xC0) == 0x80;
    character = character << 6 | (next & 0x3F);
  }
  whole = whole && is_scalar_of(character, bytes);
  rest.remove_prefix(whole ? bytes : 1);
  return whole ? character : kReplacement;
}

void append(std::string& out, char32_t character) {
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | (character >> shift & 0x3F)); };
  if (character < 0x80) {
    out += static_cast<char>(character);
  } else if (character < 0x800) {
    out += static_cast<char>(0xC0 | character >> 6);
    tail(0);
  } else if (character < 0x10000) {
    out += static_cast<char>(0xE0 | character >> 12);
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xF0 | character >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

char32_t printable_character(char32_t character) {
  const bool space = (character >= '\t' && character <= '\r') || character == 0x2028 || character == 0x2029;
  if (space) return ' ';
  return within(character, kUnprintable) ? kReplacement : character;
}

std::size_t width_of(char32_t character) {
  if (within(character, kCombining)) return 0;
  return within(character, kWide) ? 2 : 1;
}

}  // namespace

std::string printable(std::string_view text, std::size_t most) {
  std::string out;
  for (std::size_t taken = 0; !text.empty(); ++taken) {
    const char32_t character = printable_character(take_character(text));
    if (taken + 1 == most && !text.empty()) return out.append(kEllipsis);
    append(out, character);
  }
  return out;
}

std::size_t columns_of(std::string_view printable_text) {
  std::size_t columns = 0;
  while (!printable_text.empty()) columns += width_of(take_character(printable_text));
  return columns;
}

std::string cut_to_columns(std::string_view printable_text, std::size_t columns) {
  if (columns_of(printable_text) <= columns) return std::string(printable_text);
  std::string out;
  std::size_t left = columns - 1;
  while (true) {
    const char32_t character = take_character(printable_text);
    const std::size_t width = width_of(character);
    if (width > left) return out.append(kEllipsis);
    left -= width;
    append(out, character);
  }
}

std::string fixed(double value, int digits) {
  constexpr double kVeryLarge = 1e12;
  if (!std::isfinite(value)) return "n/a";
  if (value == 0) value = 0;  // a negative zero loses its sign
  return std::abs(value) < kVeryLarge ? fmt::format("{:.{}f}", value, digits) : fmt::format("{:.3e}", value);
}

std::string measured(double value) {
  const double size = std::abs(value);
  if (size != 0 && size < 0.01) return fmt::format("{:.3g}", value);
  if (size < 10) return fixed(value, 3);
  if (size < 100) return fixed(value, 2);
  return fixed(value, size < 1000 ? 1 : 0);
}

std::string grouped(std::uint64_t value) {
  std::string digits = fmt::format("{}", value);
  for (auto at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, 1, ',');
  return digits;
}

std::string spread(const Quartiles& quartiles, int digits) {
  return fmt::format("{} ({}-{})", fixed(quartiles.median, digits), fixed(quartiles.low, digits),
                     fixed(quartiles.high, digits));
}

std::string memory_size(std::uint64_t bytes) {
  constexpr double kGibibyte = 1024.0 * 1024 * 1024;
  const double gibibytes = static_cast<double>(bytes) / kGibibyte;
  return fixed(gibibytes, gibibytes < 10 ? 1 : 0) + " GiB";
}

}  // namespace kvkeep::bench
