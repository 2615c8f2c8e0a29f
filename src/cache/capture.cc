#include "cache/capture.h"

#include <algorithm>

namespace kvkeep::cache {

namespace {
constexpr std::uint64_t kMaxSegmentBytes = 64ull << 20;
// One is written while the next is filled.
constexpr std::size_t kPreparedBuffers = 2;
}  // namespace

std::size_t segment_tokens_limit(const ModelMemory& memory) {
  const std::uint64_t per_token = std::max<std::uint64_t>(1, memory.rows_bytes(1024) / 1024);
  return std::clamp<std::size_t>(kMaxSegmentBytes / per_token, 1, format::kMaxSegmentTokens);
}

void prepare_staging(Cache& cache, const ModelMemory& memory) {
  if (memory.rows_bytes(1) > 0)
    cache.prepare_staging(kPreparedBuffers, memory.rows_bytes(segment_tokens_limit(memory)));
}

CaptureResult capture(Cache& cache, ModelMemory& memory, SeqId seq, TokenSpan tokens, Track& track) {
  CaptureResult result;
  if (!memory.shape().cacheable || !cache.accepts()) return {0, false};
  const std::size_t limit = segment_tokens_limit(memory);
  for (;;) {
    if (!cache.follow(track, tokens.subspan(track.position().value()))) return {result.tokens, false};
    const Position begin = track.position();
    const std::size_t count = std::min(limit, tokens.size() - begin.value());
    if (count == 0) return result;
    if (!cache.make_room(memory.rows_bytes(count))) return {result.tokens, false};
    store::StagingBuffer rows = cache.staging(memory.rows_bytes(count));
    const Result<std::size_t> saved = memory.save_rows(seq, {begin, begin + count}, rows.span());
    if (!saved || !cache.store(track, tokens.subspan(begin.value(), count), std::move(rows), *saved)) {
      result.complete = false;
      return result;
    }
    result.tokens += count;
  }
}

}  // namespace kvkeep::cache
