#include "cache/capture.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/assert.h"
#include "policy/share.h"

namespace kvkeep::cache {

namespace {

constexpr std::uint64_t kMaxSegmentBytes = 64ull << 20;
// One is written while the next is filled.
constexpr std::size_t kPreparedBuffers = 2;
// Segments end at policy::kHeadEnds at the latest. Every chat begins with the opening of its template, and later
// conversations leave the first one there; a segment that they leave in its middle stays whole as long as they do. So a
// conversation's own rows should not lie in one segment with such an opening, nor those of a later conversation with a
// longer opening: therefore at fixed positions, whatever is known already. Bare role markers are a few tokens, openings
// with a date or a default system prompt 25 to 70: an opening of up to 32 keeps at most 31 tokens of others, one of up
// to 256 at most 223. Each end costs a conversation one more file.
std::size_t tokens_to_head_end(Position begin) {
  for (const std::uint32_t end : policy::kHeadEnds) {
    if (begin.value() < end) return end - begin.value();
  }
  return std::numeric_limits<std::size_t>::max();
}

// With a shared tier no segment crosses the grid, so that other servers can guess where it ends.
std::size_t tokens_to_grid_end(Position begin, std::size_t most_tokens) {
  return policy::next_on_grid(begin, policy::share_grid(most_tokens)) - begin;
}

PointResult capture_state(Cache& cache, ModelMemory& memory, SeqId seq, const Track& track, Keeping keeping) {
  const format::PartKind kind = point_kind(memory.shape());
  if (cache.has_point(track, kind, keeping)) return {};
  const std::size_t size_bytes = memory.point_bytes(seq);
  if (!cache.make_room_for_point(size_bytes)) return {ByteCount{}, false};
  store::StagingBuffer state = cache.staging(size_bytes);
  const Result<std::size_t> saved = memory.save_point(seq, state.span());
  if (!saved || !cache.store_point(track, kind, std::move(state), *saved, keeping)) return {ByteCount{}, false};
  return {ByteCount{*saved}, true};
}

// Captures all of the window or, for lack of room, none of it: a part by itself restores nothing.
PointResult capture_window(Cache& cache, ModelMemory& memory, SeqId seq, const Track& track) {
  const Position end = track.position();
  const Position begin{end.value() - std::min(end.value(), memory.shape().window_tokens)};
  const std::vector<TokenRange> missing = cache.missing_windows(track, begin);
  std::size_t needed_bytes = 0;
  for (const TokenRange run : missing) needed_bytes += memory.window_bytes(run.size());
  PointResult result;
  if (!missing.empty() && !cache.make_room_for_point(needed_bytes)) result.complete = false;
  for (const TokenRange run : missing) {
    if (!result.complete) break;
    store::StagingBuffer rows = cache.staging(memory.window_bytes(run.size()));
    const Result<std::size_t> saved = memory.save_window(seq, run, rows.span());
    result.complete = saved && cache.store_window(track, run, std::move(rows), *saved);
    if (result.complete) result.bytes += ByteCount{*saved};
  }
  return result;
}

}  // namespace

std::size_t segment_tokens_limit(const ModelMemory& memory) {
  const std::uint64_t per_token = std::max<std::uint64_t>(1, memory.rows_bytes(1024) / 1024);
  return std::clamp<std::size_t>(kMaxSegmentBytes / per_token, 1, format::kMaxSegmentTokens);
}

void prepare_staging(Cache& cache, const ModelMemory& memory) {
  // These buffers fill before the first of them is written.
  for (std::uint32_t begin = 0; const std::uint32_t end : policy::kHeadEnds) {
    cache.prepare_staging(1, memory.rows_bytes(end - std::exchange(begin, end)));
  }
  cache.prepare_staging(kPreparedBuffers, memory.rows_bytes(segment_tokens_limit(memory)));
  cache.prepare_staging(1, cache.point_bytes().value());
}

CaptureResult capture(Cache& cache, ModelMemory& memory, SeqId seq, TokenSpan tokens, Track& track,
                      std::span<const TokenRange> sampled) {
  CaptureResult result;
  if (!memory.shape().cacheable || !cache.accepts()) return {0, false};
  const std::size_t most = segment_tokens_limit(memory);
  for (;;) {
    const Position before = track.position();
    const bool followed = cache.follow(track, tokens.subspan(before.value()));
    const Position begin = track.position();
    if (begin > before) cache.note_sampled(track, before, sampled);
    if (!followed) return {result.tokens, false};
    if (begin.value() == tokens.size()) return result;
    const index::RangeSide side = index::side_of(sampled, begin);
    const std::size_t limit = cache.publishes() ? tokens_to_grid_end(begin, most) : most;
    const std::size_t count =
        std::min({limit, tokens.size() - begin.value(), side.until - begin, tokens_to_head_end(begin)});
    const format::Origin origin = side.inside ? format::Origin::kSampled : format::Origin::kPrompt;
    const std::size_t size_bytes = memory.rows_bytes(count);
    if (!cache.make_room(size_bytes)) return {result.tokens, false};
    store::StagingBuffer rows = cache.staging(size_bytes);
    // Models that have only points have no rows to save: the segment holds the token ids above a point.
    const Result<std::size_t> saved = size_bytes == 0 ? Result<std::size_t>{std::size_t{0}}
                                                      : memory.save_rows(seq, {begin, begin + count}, rows.span());
    if (!saved || !cache.store(track, tokens.subspan(begin.value(), count), std::move(rows), *saved, origin)) {
      result.complete = false;
      return result;
    }
    result.tokens += count;
  }
}

PointResult capture_point(Cache& cache, ModelMemory& memory, SeqId seq, TokenSpan tokens, const Track& track,
                          Keeping keeping) {
  const StateShape shape = memory.shape();
  if (!shape.cacheable || !cache.accepts()) return {ByteCount{}, false};
  if (!shape.needs_points() || tokens.empty()) return {};
  KVKEEP_ASSERT(memory.length(seq).value() == tokens.size(), "a point is the state where the sequence ends");
  if (track.position().value() != tokens.size()) return {ByteCount{}, false};  // its segment was refused
  if (shape.window_tokens > 0) return capture_window(cache, memory, seq, track);
  return capture_state(cache, memory, seq, track, keeping);
}

}  // namespace kvkeep::cache
