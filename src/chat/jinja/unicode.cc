#include "chat/jinja/unicode.h"

#include <cstdint>
#include <cstring>

namespace kvkeep::chat::jinja {
namespace {

// Strips characters at the ends for which `goes(std::string_view character, char32_t code)` returns true.
template <typename Goes>
Core strip(std::string_view text, bool front, bool back, Goes goes) {
  std::size_t begin = 0;
  std::size_t end = text.size();
  while (front && begin < end) {
    const Character first = character_at(text, begin);
    if (!goes(text.substr(begin, first.bytes), first.code)) break;
    begin += first.bytes;
  }
  while (back && end > begin) {
    const Character last = character_before(text, end);
    if (!goes(text.substr(end - last.bytes, last.bytes), last.code)) break;
    end -= last.bytes;
  }
  return {begin, end - begin};
}

}  // namespace

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

Core strip_space(std::string_view text, bool front, bool back) {
  return strip(text, front, back, [](std::string_view, char32_t code) { return is_space(code); });
}

Core strip_characters(std::string_view text, std::string_view characters, bool front, bool back) {
  return strip(text, front, back, [&](std::string_view one, char32_t) { return characters.contains(one); });
}

}  // namespace kvkeep::chat::jinja
