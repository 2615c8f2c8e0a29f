#include "base/media_ids.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <span>
#include <string>

#include "base/assert.h"

namespace kvkeep {
namespace {

constexpr std::uint32_t kMedia = 1U << 31;
constexpr std::uint32_t kHead = 1U << 30;
constexpr std::uint32_t kPayload = kHead - 1;
constexpr std::uint32_t kPlane = 1U << 25;
constexpr unsigned kPaddingShift = 26;
constexpr std::uint32_t kPaddingMask = 7;
constexpr std::uint32_t kSound = 1U << 29;
constexpr std::uint32_t kMostPadding = kLeastMediaIds - 1;

static_assert(kMostChunkPositions < kPlane && kMostPadding <= kPaddingMask && (kPaddingMask << kPaddingShift) < kSound);

constexpr std::uint32_t raw(TokenId id) { return static_cast<std::uint32_t>(id); }
constexpr bool is_head(TokenId id) { return begins_media(id); }

std::uint32_t padding_of(const ChunkShape& shape) {
  return shape.embeddings < kLeastMediaIds ? static_cast<std::uint32_t>(kLeastMediaIds) - shape.embeddings : 0;
}

std::uint32_t shape_bits(const ChunkShape& shape) {
  return shape.positions | (shape.plane ? kPlane : 0) | padding_of(shape) << kPaddingShift | (shape.sound ? kSound : 0);
}

// Returns how many ids the chunk has that `ids` begin with.
std::size_t run_length(TokenSpan ids) {
  const auto end = std::find_if(ids.begin() + 1, ids.end(), [](TokenId id) { return !is_media_id(id) || is_head(id); });
  return static_cast<std::size_t>(end - ids.begin());
}

Error not_ours(Position at) {
  return damaged("the ids from position " + std::to_string(at.value()) + " on are not those of a picture or sound");
}

Result<ChunkShape> read_shape(TokenSpan run, Position at, bool may_be_cut) {
  if (!is_head(run.front()) || (run.size() < kLeastMediaIds && !may_be_cut)) return not_ours(at);
  if (run.size() == 1) return ChunkShape{.embeddings = 1, .positions = 1};
  const std::uint32_t bits = raw(run[1]) & kPayload;
  const std::uint32_t padding = bits >> kPaddingShift & kPaddingMask;
  const auto ids = static_cast<std::uint32_t>(run.size());
  ChunkShape shape{.embeddings = ids,
                   .positions = bits & kMostChunkPositions,
                   .plane = (bits & kPlane) != 0,
                   .sound = (bits & kSound) != 0};
  if (padding > kMostPadding || (padding > 0 && ids > kLeastMediaIds)) return not_ours(at);
  if (padding > 0) shape.embeddings = std::min<std::uint32_t>(ids, kLeastMediaIds - padding);
  const bool is_whole = shape.plane || shape.positions == shape.embeddings;
  const bool is_part = may_be_cut && shape.positions > shape.embeddings;
  if (!is_whole && !is_part) return not_ours(at);
  return shape;
}

}  // namespace

MediaHash media_hash(const MediaKey& key, ByteSpan file) {
  blake3_hasher state;
  blake3_hasher_init_keyed(&state, key.model.bytes.data());
  blake3_hasher_update(&state, key.projector.bytes.data(), key.projector.bytes.size());
  blake3_hasher_update(&state, &key.least_tokens, sizeof key.least_tokens);
  blake3_hasher_update(&state, &key.most_tokens, sizeof key.most_tokens);
  const std::uint64_t device_bytes = key.device.size();
  blake3_hasher_update(&state, &device_bytes, sizeof device_bytes);
  blake3_hasher_update(&state, key.device.data(), key.device.size());
  blake3_hasher_update(&state, file.data(), file.size());
  MediaHash hash;
  blake3_hasher_finalize(&state, hash.bytes.data(), hash.bytes.size());
  return hash;
}

std::vector<TokenId> media_ids(const MediaHash& file, std::uint32_t index, const ChunkShape& shape) {
  KVKEEP_ASSERT(shape.embeddings > 0 && shape.embeddings <= kMostChunkPositions, "a chunk has embeddings");
  KVKEEP_ASSERT(shape.positions <= kMostChunkPositions, "positions fit their bits");
  KVKEEP_ASSERT(shape.plane || shape.positions == shape.embeddings, "one position each");
  blake3_hasher state;
  blake3_hasher_init_keyed(&state, file.bytes.data());
  blake3_hasher_update(&state, &index, sizeof index);
  blake3_hasher_update(&state, &shape.embeddings, sizeof shape.embeddings);
  std::vector<TokenId> ids(shape.embeddings + padding_of(shape));
  blake3_hasher_finalize(&state, reinterpret_cast<std::uint8_t*>(ids.data()), ids.size() * sizeof ids[0]);
  for (TokenId& id : ids) id = static_cast<TokenId>(kMedia | (raw(id) & kPayload));
  ids[0] = static_cast<TokenId>(raw(ids[0]) | kHead);
  ids[1] = static_cast<TokenId>(kMedia | shape_bits(shape));
  return ids;
}

Result<std::vector<MediaRun>> media_runs(TokenSpan prompt) {
  std::vector<MediaRun> runs;
  for (std::size_t at = 0; at < prompt.size();) {
    if (!is_media_id(prompt[at])) {
      ++at;
      continue;
    }
    const TokenSpan run = prompt.subspan(at, run_length(prompt.subspan(at)));
    const Position begin{static_cast<std::uint32_t>(at)};
    TRY_ASSIGN(const ChunkShape shape, read_shape(run, begin, at + run.size() == prompt.size()));
    runs.push_back({{begin, begin + run.size()}, shape});
    at += run.size();
  }
  return runs;
}

Position media_floor(std::span<const MediaRun> runs, Position at) {
  const auto after = std::ranges::upper_bound(runs, at, {}, [](const MediaRun& run) { return run.range.begin; });
  if (after == runs.begin()) return at;
  const TokenRange last = std::prev(after)->range;
  return at < last.end ? last.begin : at;
}

Position model_position(std::span<const MediaRun> runs, Position at) {
  std::size_t before = 0;  // ids that have no position of their own
  for (const MediaRun& run : runs) {
    if (run.range.begin >= at) break;
    const std::size_t ids = std::min(run.range.end, at) - run.range.begin;
    const bool inside = at < run.range.end;
    const std::size_t moved = !run.shape.plane ? std::min<std::size_t>(ids, run.shape.embeddings)
                              : inside         ? 0
                                               : run.shape.positions;
    before += ids - moved;
  }
  return Position{static_cast<std::uint32_t>(at.value() - before)};
}

std::string media_name(TokenSpan ids) {
  const bool knows = ids.size() > 1 && is_media_id(ids[1]) && !is_head(ids[1]);
  const char* kind = !knows ? "media" : (raw(ids[1]) & kSound) != 0 ? "sound" : "picture";
  std::array<char, 32> word{};
  std::snprintf(word.data(), word.size(), "%s %08x", kind, raw(ids.front()) & kPayload);
  return word.data();
}

std::string media_word(TokenSpan ids) {
  std::string word = media_name(ids);
  word.insert(word.begin(), '[');
  word.push_back(']');
  return word;
}

bool are_tokens(TokenSpan ids, std::size_t vocabulary_size) {
  return std::ranges::all_of(ids,
                             [&](TokenId id) { return id >= 0 && static_cast<std::size_t>(id) < vocabulary_size; });
}

bool are_segment_ids(TokenSpan ids, std::size_t vocabulary_size) {
  const auto is_possible = [&](TokenId id) {
    return is_media_id(id) || static_cast<std::size_t>(id) < vocabulary_size;
  };
  if (!std::ranges::all_of(ids, is_possible)) return false;
  if (std::ranges::none_of(ids, is_media_id)) return true;
  if (media_runs(ids).ok()) return true;
  // The chunk may have begun in the segment before: a restore reads both together, and takes ids that do not fit for
  // damage.
  const auto first = std::ranges::find_if_not(ids, is_media_id);
  return media_runs(ids.subspan(static_cast<std::size_t>(first - ids.begin()))).ok();
}

}  // namespace kvkeep
