#include "bench/workload_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace kvkeep::bench {
namespace {

constexpr std::string_view kBlanks = " \t";
constexpr std::size_t kMaxQuotedBytes = 40;

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

// Length of the character at the start of `text`, by its first byte; 0: no character begins like this.
std::size_t character_bytes(char first) {
  const auto byte = static_cast<unsigned char>(first);
  if (byte < 0x80) return 1;
  if (byte >= 0xc2 && byte <= 0xdf) return 2;
  if (byte >= 0xe0 && byte <= 0xef) return 3;
  return byte >= 0xf0 && byte <= 0xf4 ? 4 : 0;
}

// The code point of one character of that length. Precondition: its continuation bytes are such.
std::uint32_t code_point(std::string_view character) {
  constexpr std::uint32_t kFirstByteBits[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
  std::uint32_t point = static_cast<unsigned char>(character[0]) & kFirstByteBits[character.size()];
  for (const char byte : character.substr(1)) point = point << 6 | (static_cast<unsigned char>(byte) & 0x3f);
  return point;
}

// Neither a control character nor one that UTF-8 may not spell, or not with so many bytes.
bool is_printable_point(std::uint32_t point, std::size_t bytes) {
  constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (point == '\t') return true;
  if (point < 0x20 || (point >= 0x7f && point < 0xa0)) return false;
  return point >= kLeast[bytes] && point <= 0x10ffff && (point < 0xd800 || point > 0xdfff);
}

}  // namespace

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  do {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (end < text.size() && line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  } while (!text.empty());
  return lines;
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (std::size_t begin = line.find_first_not_of(kBlanks); begin != std::string_view::npos;
       begin = line.find_first_not_of(kBlanks)) {
    line.remove_prefix(begin);
    const std::size_t end = std::min(line.find_first_of(kBlanks), line.size());
    words.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
  return words;
}

std::string_view trimmed(std::string_view line) {
  const std::size_t begin = line.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return line.substr(begin, line.find_last_not_of(kBlanks) + 1 - begin);
}

bool is_printable(std::string_view line) {
  while (!line.empty()) {
    const std::size_t bytes = character_bytes(line[0]);
    if (bytes == 0 || bytes > line.size()) return false;
    const std::string_view character = line.substr(0, bytes);
    if (!std::ranges::all_of(character.substr(1), continues_character)) return false;
    if (!is_printable_point(code_point(character), bytes)) return false;
    line.remove_prefix(bytes);
  }
  return true;
}

std::string in_quotes(std::string_view word) {
  if (word.size() <= kMaxQuotedBytes) return fmt::format("'{}'", word);
  std::size_t end = kMaxQuotedBytes;
  while (continues_character(word[end])) --end;  // never within a character
  return fmt::format("'{}...'", word.substr(0, end));
}

}  // namespace kvkeep::bench
