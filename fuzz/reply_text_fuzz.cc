// The text of replies as it is streamed: UTF-8 however it is cut, and stop strings compared with a naive reader of the
// whole. Two lines are stop strings, the next two bytes say how the rest is cut.

#include "chat/text_streams.h"
#include "fuzz.h"

namespace kvkeep::chat {
namespace {

// The stop that ends first, the longest of those that end there: the text before it, and its own.
std::pair<std::string, std::optional<std::string>> naive(std::string_view text, const std::vector<std::string>& stops) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    const std::string* longest = nullptr;
    for (const std::string& stop : stops) {
      if (stop.empty() || !text.substr(0, end).ends_with(stop)) continue;
      if (longest == nullptr || stop.size() > longest->size()) longest = &stop;
    }
    if (longest != nullptr) return {std::string(text.substr(0, end - longest->size())), *longest};
  }
  return {std::string(text), std::nullopt};
}

// `cut` gives the size of the next piece.
template <typename Stream, typename Cut>
std::string fed(Stream& stream, std::string_view text, Cut cut) {
  std::string out;
  while (!text.empty()) {
    const std::size_t size = std::min(text.size(), cut());
    out += stream.feed(text.substr(0, size));
    text.remove_prefix(size);
  }
  return out + stream.finish();
}

}  // namespace
}  // namespace kvkeep::chat

KVKEEP_FUZZ_TARGET(reply_text)(const std::uint8_t* data, std::size_t size) {
  using namespace kvkeep;
  fuzz::Input input(data, size);
  const std::vector<std::string> stops = {std::string(input.line()), std::string(input.line())};
  std::uint32_t state = input.number<std::uint16_t>();
  const std::string_view text = fuzz::text_of(input.rest());
  const auto cut = [&] { return std::size_t{1} + (state = state * 1664525 + 1013904223) % 7; };
  const auto whole = [&] { return text.size(); };

  chat::Utf8Stream pieces;
  chat::Utf8Stream at_once;
  const std::string valid = chat::fed(pieces, text, cut);
  KVKEEP_ASSERT(chat::is_valid_utf8(valid), "what is told is UTF-8");
  KVKEEP_ASSERT(valid == chat::fed(at_once, text, whole), "cuts do not matter");
  KVKEEP_ASSERT(!chat::is_valid_utf8(text) || valid == text, "what is UTF-8 stays as it is");

  chat::StopStrings stopper(stops);
  const std::string told = chat::fed(stopper, valid, cut);
  const auto [expected, found] = chat::naive(valid, stops);
  KVKEEP_ASSERT(told == expected && stopper.found() == found, "a stop string ends the text where it first ends");
  return 0;
}
