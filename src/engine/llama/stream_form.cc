#include "engine/llama/stream_form.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/assert.h"

namespace kvkeep::engine::llama {
namespace {

using Word = std::uint32_t;
constexpr std::size_t kWord = sizeof(Word);
constexpr std::size_t kEnvelope = 2 * kWord;  // a magic number, and the sequence

Word word_at(ByteSpan bytes, std::size_t at) {
  Word word;
  std::memcpy(&word, bytes.data() + at, kWord);
  return word;
}

bool all_zero(ByteSpan bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

}  // namespace

Result<ByteSpan> to_unified_form(MutableByteSpan section, std::uint32_t streams, std::uint32_t stream) {
  KVKEEP_ASSERT(stream < streams, "the stream exists");
  const std::size_t counts = kEnvelope + kWord;  // where the first stream's count lies
  const std::size_t before = stream * kWord;
  const std::size_t after = stream_form_extra(streams) - before;
  if (section.size() < counts + before + kWord + after) return io_error("libllama gave less than a sequence's state");
  if (word_at(section, kEnvelope) != streams) return io_error("libllama gave state of another number of streams");
  if (!all_zero(section.subspan(counts, before)) || !all_zero(section.last(after))) {
    return io_error("libllama gave state of another sequence's stream");
  }
  std::array<std::byte, counts> head;
  std::memcpy(head.data(), section.data(), kEnvelope);
  constexpr Word kOneStream = 1;
  std::memcpy(head.data() + kEnvelope, &kOneStream, kWord);
  const MutableByteSpan unified = section.subspan(before, section.size() - before - after);
  std::ranges::copy(head, unified.begin());
  return ByteSpan(unified);
}

std::size_t to_stream_form(MutableByteSpan bytes, std::size_t size, std::uint32_t streams) {
  const std::size_t extra = stream_form_extra(streams);
  KVKEEP_ASSERT(size >= kEnvelope + 2 * kWord && bytes.size() >= size + extra, "there is room for the other counts");
  std::memcpy(bytes.data() + kEnvelope, &streams, kWord);
  std::ranges::fill(bytes.subspan(size, extra), std::byte{0});
  return size + extra;
}

}  // namespace kvkeep::engine::llama
