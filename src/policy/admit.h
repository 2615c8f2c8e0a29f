#pragma once

// Decides which segments and leaves are written to a disk with a limit per day. Pure: a view in, an answer out.
//
// An offer is judged by the prefill time that it saves per byte written, weighted by how often prompts came back;
// deeper tokens cost more, for attention. While at least half of the allowance that may gather is there, all is
// written. With less, an offer must save more than a threshold that grows as the allowance shrinks, measured by usual
// offers, so that no unit has to be known: long prefixes, conversations that go on and heads that many share pass
// first, and of short ones that are not continued the fewest. An offer that is refused waits in RAM; see Cache.

#include <cstdint>

#include "base/types.h"

namespace kvkeep::policy {

// A segment or leaf, and all that must be written before it.
struct WriteOffer {
  ByteCount bytes;
  std::uint32_t tokens = 0;  // prefill that it saves
  Position begin;            // where they begin: later tokens cost more
  double returns = 0;        // how often prompts came back to it; of one that continues another, its share of those
  bool kept = false;         // a request asked for it to stay: written as long as anything may be
};

struct AdmitView {
  ByteCount left;          // may be written now
  ByteCount most;          // that may gather
  double usual_saved = 0;  // prefill per byte, see next_usual_saved(); 0: nothing was offered yet
};

// Expected prefill saved per byte written.
double expected_saved_per_byte(const WriteOffer& offer);

bool admits(const AdmitView& view, const WriteOffer& offer);

// Returns the moving average of expected_saved_per_byte() over all offers, admitted or not: each byte counts the same,
// and those of the last `most` count.
double next_usual_saved(const AdmitView& view, const WriteOffer& offer);

}  // namespace kvkeep::policy
