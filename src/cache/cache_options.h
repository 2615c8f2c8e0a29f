#pragma once

// Options of a cache, and results of its calls.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "base/types.h"
#include "cache/model_memory.h"
#include "format/segment_file.h"

namespace kvkeep::cache {

struct CacheOptions {
  FingerprintHash fingerprint;
  std::size_t vocabulary_size = SIZE_MAX;  // segments from files and other servers with ids beyond it are not taken
  // Payload bytes held in RAM, the write queue included. Not included: idle staging buffers (see staging_limit) and
  // segments that requests are loading from disk at this moment. With a disk tier the queue may use kMinimumWriteQueue
  // and two of the largest points even if the budget is smaller (all must pass through RAM to get to disk, one while
  // the other is written); without one, 0 stores nothing.
  ByteCount ram_budget;
  // The largest point of the model, or its window, as far as known beforehand. 0: it has none, or they grow.
  ByteCount point_bytes = {};
  // Shorter prefixes get no file of their own. They are written when a longer one continues them.
  std::size_t min_disk_tokens = 32;
  // The disk's index is saved after this many segments were written or used, or after an eighth of all if that is more
  // (saving costs as much as there are). After a kill the next start reads that many one by one.
  std::size_t save_index_after = 256;
  // Most bytes in the writer's queue; further segments wait outside, see Cache. 0: half of the RAM budget, so that the
  // rest goes on serving while a slow disk catches up, but as much as the queue may use of a small budget.
  ByteCount write_queue = {};
  // Most segments that are remembered per reason for waiting in RAM; the rest is written with what continues it.
  std::size_t most_waiting = 1 << 16;
  std::size_t most_shared = 1 << 16;  // segments and leaves that are remembered as lying in the shared tier, at most
  // Bytes that one publication in the shared tier reads from the disk, where RAM lacks the beginning; writing waits.
  ByteCount most_read_to_publish = mebibytes(64);
  std::int64_t time_to_live_ns = 0;  // state that is unused for so long leaves all tiers; 0: only for lack of room
  // Percent of the disk budget that points, whole states and window rows may take. Less leaves room for the rows of
  // more prefixes, but fewer of them can be continued.
  std::uint32_t disk_points_share = 100;
  // An audit of an earlier process found stored state wrong (docs/audit.md): nothing is used, and nothing is stored.
  bool distrusted = false;
  StateShape shape = {.cacheable = true};  // of the state that the model's sequences need in addition to rows
};
inline constexpr ByteCount kMinimumWriteQueue = mebibytes(64);
// Most states built on each other: loading reads and decodes all of them. More save little.
inline constexpr std::size_t kMaxBuiltStates = 8;

// Where a point goes. A point that few requests return to stays only in RAM until one did: points that are thinned out,
// or leave without a use, cost the disk no writes.
enum class Keeping : std::uint8_t { kOnDisk, kInRamUntilUsed };

// The kind of leaf for models whose sequences need more than rows. Precondition: shape.needs_points().
constexpr format::PartKind point_kind(const StateShape& shape) {
  if (shape.window_tokens > 0) return format::PartKind::kWindowRows;
  return shape.whole_points ? format::PartKind::kWhole : format::PartKind::kPoint;
}

// Most bytes of idle staging buffers next to a RAM budget: one for a point (buffers are up to an eighth larger than
// asked for), and an eighth of the budget, 16 to 256 MiB. A larger capture copies into fresh memory, several times
// slower: a small budget cannot afford hundreds of MiB at once.
constexpr ByteCount staging_limit(ByteCount ram_budget, ByteCount point_bytes = {}) {
  return std::clamp(ByteCount{ram_budget.value() / 8}, mebibytes(16), mebibytes(256)) + point_bytes +
         ByteCount{point_bytes.value() / 8};
}

// The outcome of a load.
struct LoadResult {
  Status status;         // of the first step that failed; those before it have their payload
  ByteCount bytes_read;  // from disk
  double read_ms = 0;
  ByteCount shared_bytes = {};  // from tiers below it, in so many reads
  std::size_t shared_reads = 0;
  double shared_ms = 0;
};

// Where a prompt leaves the known text, and what follows there in the known text that has most in common with the rest
// of the prompt: of at most explain::kMostAlike texts, and of equal ones in the newest.
struct Branch {
  Position at;
  std::vector<TokenId> next;  // empty: nothing follows
};

// See Cache::random_path.
struct StoredPath {
  std::vector<TokenId> tokens;  // from the beginning to the end of the segment, or to the leaf
  Tenant tenant = kNoTenant;
  Position begin;  // of the segment, or of the one that the leaf hangs in
};

}  // namespace kvkeep::cache
