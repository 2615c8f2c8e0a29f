#pragma once

// Capture: copies new rows of a live sequence from the model's memory into the cache.
//
// Runs on the engine thread and pays one copy of only the new rows: rows that the index already knows are skipped, so
// nothing is stored twice. Rows that the cache refuses stay open at the track and are tried again next time. Segments
// end early where chats are likely to part: after the opening that their template gives them.

#include <span>

#include "base/types.h"
#include "cache/cache.h"
#include "cache/model_memory.h"

namespace kvkeep::cache {

struct CaptureResult {
  std::size_t tokens = 0;  // rows captured now
  bool complete = true;    // false: something was refused or could not be saved
};

// `tokens` are all ids the sequence holds; rows up to tokens.size() are captured as far as the cache takes them.
// `sampled` names the ids that this server sampled (ascending, apart; ranges may go on beyond the tokens): no segment
// holds both kinds.
CaptureResult capture(Cache& cache, ModelMemory& memory, SeqId seq, TokenSpan tokens, Track& track,
                      std::span<const TokenRange> sampled = {});

// Captures the state that rows cannot give, so that a sequence can be restored at length(seq) again: a point, or the
// rows of the last window that are not stored yet. Does nothing for models that need only rows. `tokens` and `track` as
// for capture(), which comes first; if that was refused, nothing is captured. Precondition: the sequence is complete.
struct PointResult {
  ByteCount bytes;       // captured now
  bool complete = true;  // false: refused
};
// `keeping` is for points; windows, which count together, go to disk.
PointResult capture_point(Cache& cache, ModelMemory& memory, SeqId seq, TokenSpan tokens, const Track& track,
                          Keeping keeping = Keeping::kOnDisk);

// Has the writer thread make buffers ready for the first captures: a copy into fresh memory takes several times longer.
void prepare_staging(Cache& cache, const ModelMemory& memory);

// Most tokens of one segment: 2,048 or 64 MiB of rows.
std::size_t segment_tokens_limit(const ModelMemory& memory);

}  // namespace kvkeep::cache
