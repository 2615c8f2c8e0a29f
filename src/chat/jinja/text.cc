#include "chat/jinja/text.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

#include "chat/jinja/failure.h"

namespace kvkeep::chat::jinja {
namespace {

constexpr std::size_t kLargestTextBytes = std::numeric_limits<std::uint32_t>::max() / 2;
constexpr std::size_t kSmallestGrowth = 24;

TextBuffer* make_buffer(Arena& arena, char* bytes, std::size_t capacity) {
  if (capacity > kLargestTextBytes) fail_unsupported("a text of more than 2 GiB");
  auto* buffer = arena.make<TextBuffer>();
  buffer->bytes = bytes != nullptr ? bytes : arena.make_array<char>(capacity);
  buffer->capacity = static_cast<std::uint32_t>(capacity);
  buffer->runs = &buffer->inline_run;
  buffer->run_capacity = 1;
  return buffer;
}

}  // namespace

std::uint32_t Text::run_at(std::size_t place) const {
  const TextRun* runs = buffer_->runs;
  if (place < runs[0].end) return 0;
  const auto* found = std::upper_bound(runs, runs + buffer_->run_count, place,
                                       [](std::size_t at, const TextRun& run) { return at < run.end; });
  return static_cast<std::uint32_t>(found - runs);
}

TextBuilder::TextBuilder(Arena& arena, const Text& start, std::size_t more_bytes)
    : arena_(arena), expected_(start.size() + more_bytes) {
  TextBuffer* buffer = start.buffer();
  if (!start.empty() && buffer->growable && start.begin() + start.size() == buffer->used) {
    buffer_ = buffer;
    begin_ = static_cast<std::uint32_t>(start.begin());
  } else {
    append(start);
  }
}

void TextBuilder::reserve(std::size_t more) {
  if (buffer_ == nullptr) {
    buffer_ = make_buffer(arena_, nullptr, std::max({expected_, more, kSmallestGrowth}));
    buffer_->growable = true;
  }
  const std::size_t needed = buffer_->used + more;
  if (needed <= buffer_->capacity) return;
  // Mostly only little follows, such as a marker after a long message: that must not move it again.
  const std::size_t capacity = std::max(needed + needed / 8, std::size_t{buffer_->capacity} * 2);
  if (capacity > kLargestTextBytes) fail_unsupported("a text of more than 2 GiB");
  char* bytes = arena_.make_array<char>(capacity);
  std::memcpy(bytes, buffer_->bytes, buffer_->used);
  buffer_->bytes = bytes;  // the old bytes stay valid, as part of the arena
  buffer_->capacity = static_cast<std::uint32_t>(capacity);
}

void TextBuilder::add_run(std::size_t bytes, Origin origin) {
  TextBuffer& buffer = *buffer_;
  buffer.used += static_cast<std::uint32_t>(bytes);
  if (buffer.run_count > 0 && buffer.runs[buffer.run_count - 1].origin == origin) {
    buffer.runs[buffer.run_count - 1].end = buffer.used;
    return;
  }
  if (buffer.run_count == buffer.run_capacity) {
    const std::uint32_t capacity = buffer.run_capacity * 4;
    auto* runs = arena_.make_array<TextRun>(capacity);
    std::copy_n(buffer.runs, buffer.run_count, runs);
    buffer.runs = runs;
    buffer.run_capacity = capacity;
  }
  buffer.runs[buffer.run_count++] = {buffer.used, origin};
}

void TextBuilder::append(std::string_view bytes, Origin origin) {
  if (bytes.empty()) return;
  reserve(bytes.size());
  std::memcpy(buffer_->bytes + buffer_->used, bytes.data(), bytes.size());
  if (buffer_->ascii) buffer_->ascii = is_ascii(bytes);
  add_run(bytes.size(), origin);
}

void TextBuilder::append(const Text& text) {
  text.for_each_run([&](std::string_view bytes, Origin origin) { append(bytes, origin); });
}

Text make_constant(Arena& arena, std::string_view bytes, Origin origin) {
  if (bytes.empty()) return {};
  char* copy = arena.make_array<char>(bytes.size());
  std::memcpy(copy, bytes.data(), bytes.size());
  return make_view(arena, {copy, bytes.size()}, origin);
}

Text make_view(Arena& arena, std::string_view bytes, Origin origin) {
  if (bytes.empty()) return {};
  // Nothing writes to a buffer that does not grow.
  TextBuffer* buffer = make_buffer(arena, const_cast<char*>(bytes.data()), bytes.size());
  buffer->used = static_cast<std::uint32_t>(bytes.size());
  buffer->inline_run = {buffer->used, origin};
  buffer->run_count = 1;
  buffer->ascii = is_ascii(bytes);
  return {buffer, 0, bytes.size()};
}

// ---- characters ----

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
