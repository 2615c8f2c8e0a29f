#include "bench/workload_lines.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/unicode.h"

namespace kvkeep::bench {
namespace {

constexpr std::string_view kBlanks = " \t";
constexpr std::size_t kMaxQuotedBytes = 40;

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

// Neither a control character nor a byte that belongs to no character.
bool is_plain(char32_t code) {
  if (code == '\t') return true;
  return code >= 0x20 && (code < 0x7f || code >= 0xa0) && !is_stray_byte(code);
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
    const Character character = character_at(line, 0);
    if (!is_plain(character.code)) return false;
    line.remove_prefix(character.bytes);
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
