#include "chat/text_streams.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace kvkeep::chat {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// The front of a text: `length` bytes are a code point, or no code point, or the beginning of one.
struct Front {
  enum Kind { kCodePoint, kBroken, kUnfinished } kind;
  std::size_t length;
};

// Unicode table 3-7: the first byte decides what the second may be (no overlong forms, surrogates, > U+10FFFF).
struct Lead {
  std::size_t length;
  std::uint8_t second_low;
  std::uint8_t second_high;
};

Lead lead_of(std::uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte >= 0xC2 && byte <= 0xDF) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

Front front_of(std::string_view text) {
  const Lead lead = lead_of(static_cast<std::uint8_t>(text[0]));
  if (lead.length == 0) return {Front::kBroken, 1};
  for (std::size_t i = 1; i < lead.length; ++i) {
    if (i == text.size()) return {Front::kUnfinished, i};
    const auto byte = static_cast<std::uint8_t>(text[i]);
    const std::uint8_t low = i == 1 ? lead.second_low : 0x80;
    const std::uint8_t high = i == 1 ? lead.second_high : 0xBF;
    if (byte < low || byte > high) return {Front::kBroken, i};
  }
  return {Front::kCodePoint, lead.length};
}

}  // namespace

std::string Utf8Stream::feed(std::string_view bytes) {
  pending_ += bytes;
  std::string_view rest = pending_;
  std::string text;
  while (!rest.empty()) {
    const Front front = front_of(rest);
    if (front.kind == Front::kUnfinished) break;
    text += front.kind == Front::kCodePoint ? rest.substr(0, front.length) : kReplacement;
    rest.remove_prefix(front.length);
  }
  pending_ = std::string(rest);
  return text;
}

std::string Utf8Stream::finish() {
  const bool unfinished = !pending_.empty();
  pending_.clear();
  return unfinished ? std::string(kReplacement) : std::string();
}

bool is_valid_utf8(std::string_view text) {
  while (!text.empty()) {
    const Front front = front_of(text);
    if (front.kind != Front::kCodePoint) return false;
    text.remove_prefix(front.length);
  }
  return true;
}

StopStrings::StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
}

std::string StopStrings::feed(std::string_view text) {
  if (found_) return {};
  pending_ += text;
  std::size_t first_end = std::string::npos;
  for (const std::string& stop : stops_) {
    const std::size_t begin = pending_.find(stop);
    if (begin == std::string::npos) continue;
    const std::size_t end = begin + stop.size();
    if (end < first_end || (end == first_end && stop.size() > found_->size())) {
      first_end = end;
      found_ = stop;
    }
  }
  const std::size_t certain = found_ ? first_end - found_->size() : pending_.size() - held_back();
  std::string output = pending_.substr(0, certain);
  found_ ? pending_.clear() : static_cast<void>(pending_.erase(0, certain));
  return output;
}

std::string StopStrings::finish() { return std::exchange(pending_, {}); }

std::size_t StopStrings::held_back() const {
  std::size_t longest = 0;
  for (const std::string& stop : stops_) {
    for (std::size_t length = std::min(stop.size() - 1, pending_.size()); length > longest; --length) {
      if (pending_.ends_with(std::string_view(stop).substr(0, length))) longest = length;
    }
  }
  return longest;
}

}  // namespace kvkeep::chat
