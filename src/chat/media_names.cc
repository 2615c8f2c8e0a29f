#include "chat/media_names.h"

#include <charconv>

#include "base/assert.h"

namespace kvkeep::chat {
namespace {

// A name is the word, the key in 32 digits, and "n7e" for file 7.
constexpr std::string_view kWord = "kvkeepmedia";
constexpr std::size_t kKeyBytes = kWord.size() + 32;
constexpr char kBegin = 'n';
constexpr char kEnd = 'e';

// Returns the end of the number after a key that ends at `at`, after its last letter; nullopt if there is none.
std::optional<std::size_t> read_number(std::string_view text, std::size_t at, std::size_t& number) {
  if (at >= text.size() || text[at] != kBegin) return std::nullopt;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data() + at + 1, end, number);
  if (error != std::errc() || rest == end || *rest != kEnd) return std::nullopt;
  return static_cast<std::size_t>(rest - text.data()) + 1;
}

std::optional<std::size_t> end_of_name(std::string_view text, std::size_t begin) {
  const std::size_t at = begin + kKeyBytes;
  std::size_t number = 0;
  if (at > text.size() || text.substr(begin + kWord.size(), 32).find_first_not_of("0123456789abcdef") < 32) {
    return std::nullopt;
  }
  return read_number(text, at, number);
}

}  // namespace

MediaNames::MediaNames(const Key& key) : key_(kWord) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (const std::byte each : key) {
    key_ += kDigits[std::to_integer<std::size_t>(each >> 4)];
    key_ += kDigits[std::to_integer<std::size_t>(each & std::byte{15})];
  }
}

std::string MediaNames::name(std::size_t number) const {
  KVKEEP_ASSERT(!key_.empty(), "names of a request");
  return key_ + kBegin + std::to_string(number) + kEnd;
}

std::optional<MediaNames::Match> MediaNames::next(std::string_view text, std::size_t from) const {
  if (key_.empty()) return std::nullopt;
  for (std::size_t begin = text.find(key_, from); begin != std::string_view::npos; begin = text.find(key_, begin + 1)) {
    Match match{.begin = begin};
    const auto end = read_number(text, begin + key_.size(), match.number);
    if (!end) continue;
    match.end = *end;
    return match;
  }
  return std::nullopt;
}

bool begins_with_media_name(std::string_view text) {
  return text.starts_with(kWord) && end_of_name(text, 0).has_value();
}

bool ends_with_media_name(std::string_view text) {
  const std::size_t begin = text.rfind(kWord);
  return begin != std::string_view::npos && end_of_name(text, begin) == text.size();
}

}  // namespace kvkeep::chat
