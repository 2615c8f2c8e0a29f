#include "text/terminal.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/assert.h"
#include "base/unicode.h"

namespace kvkeep::text {
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
constexpr std::array kLineEnds{Span{'\n', '\r'}, Span{0x2028, 0x2029}};

// Takes one character off the front; a byte that belongs to none is U+FFFD. Precondition: there is a byte.
char32_t take_character(std::string_view& rest) {
  const Character first = character_at(rest, 0);
  rest.remove_prefix(first.bytes);
  return is_stray_byte(first.code) ? kReplacement : first.code;
}

char32_t printable_character(char32_t character) {
  if (character == '\t' || within(character, kLineEnds)) return ' ';
  return within(character, kUnprintable) ? kReplacement : character;
}

std::size_t width_of(char32_t character) { return static_cast<std::size_t>(columns_of_character(character)); }

}  // namespace

std::string printable(std::string_view text, std::size_t most) {
  std::string out;
  for (std::size_t taken = 0; !text.empty(); ++taken) {
    const char32_t character = printable_character(take_character(text));
    if (taken + 1 == most && !text.empty()) return out.append(kEllipsis);
    append_character(out, character);
  }
  return out;
}

std::string escaped(std::string_view text, std::size_t indent) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const char32_t character = take_character(text);
    if (character == '\n') {
      out.append("\n").append(indent, ' ');
    } else if (character != '\t' && (within(character, kUnprintable) || within(character, kLineEnds))) {
      out += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(character));
    } else {
      append_character(out, character);
    }
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
    append_character(out, character);
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

std::string memory_size(std::uint64_t bytes) {
  constexpr double kGibibyte = 1024.0 * 1024 * 1024;
  const double gibibytes = static_cast<double>(bytes) / kGibibyte;
  return fixed(gibibytes, gibibytes < 10 ? 1 : 0) + " GiB";
}

namespace {

constexpr std::size_t kGapColumns = 2;
constexpr std::size_t kLeastTextColumns = 12;

std::string padded(const std::string& cell, std::size_t width, TextTable::Align align) {
  std::string text = cut_to_columns(cell, width);
  const std::string space(width - columns_of(text), ' ');
  return align == TextTable::Align::kLeft ? text + space : space + text;
}

void trim_end(std::string& line) { line.erase(line.find_last_not_of(' ') + 1); }

}  // namespace

TextTable::TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

void TextTable::add_row(std::vector<std::string> cells) {
  KVKEEP_ASSERT(cells.size() == columns_.size(), "one cell per column");
  rows_.push_back(std::move(cells));
}

std::vector<std::size_t> TextTable::widths_within(std::size_t most_columns) const {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t width = columns_of(columns_[i].title);
    for (const auto& row : rows_) width = std::max(width, columns_of(row[i]));
    widths.push_back(std::max<std::size_t>(width, 1));
  }
  const auto total = [&] { return std::accumulate(widths.begin(), widths.end(), kGapColumns * (widths.size() - 1)); };
  while (total() > most_columns) {
    std::size_t* widest_text = nullptr;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      const bool shrinks = columns_[i].align == Align::kLeft && widths[i] > kLeastTextColumns;
      if (shrinks && (widest_text == nullptr || widths[i] > *widest_text)) widest_text = &widths[i];
    }
    --*(widest_text != nullptr ? widest_text : &*std::max_element(widths.begin(), widths.end()));
  }
  return widths;
}

std::string TextTable::text(std::size_t most_columns) const {
  const std::vector<std::size_t> widths = widths_within(most_columns);
  std::string out;
  const auto add_line = [&](const auto& cell_of) {
    std::string line;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (i != 0) line.append(kGapColumns, ' ');
      line += padded(cell_of(i), widths[i], columns_[i].align);
    }
    trim_end(line);
    out += line + "\n";
  };
  add_line([&](std::size_t i) { return columns_[i].title; });
  for (const auto& row : rows_) add_line([&](std::size_t i) { return row[i]; });
  return out;
}

std::string wrapped(std::string_view printable_text, std::size_t most_columns, std::size_t indent) {
  std::string out;
  std::string line;
  while (!printable_text.empty()) {
    const std::size_t end = std::min(printable_text.find(' '), printable_text.size());
    const std::string word = cut_to_columns(printable_text.substr(0, end), most_columns - indent);
    printable_text.remove_prefix(std::min(end + 1, printable_text.size()));
    if (!line.empty() && columns_of(line) + 1 + columns_of(word) > most_columns) {
      out += line + "\n";
      line.assign(indent, ' ');
      line += word;
    } else {
      if (!line.empty()) line += ' ';
      line += word;
    }
  }
  trim_end(line);
  return out + line + "\n";
}

}  // namespace kvkeep::text
