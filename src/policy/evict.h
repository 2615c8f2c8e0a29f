#pragma once

// Which segments leave a tier when it is over its budget. Pure: a view in, names of victims out.
//
// Unit of value: prefill time saved per byte, weighted by how likely a segment is needed again (recency with decay,
// hits). Rows leave leaves first; never what is pinned (in use by a running or incoming prompt) nor what was just
// written. If nothing may leave, the answer is shorter than asked and the caller refuses the new store.

#include <cstdint>
#include <vector>

#include "base/types.h"

namespace kvkeep::policy {

struct EvictCandidate {
  SegmentId segment;
  SegmentId parent;          // kRootSegment: none that counts in this tier
  ByteCount bytes;           // what leaving frees
  std::uint32_t tokens = 0;  // what must be prefilled again if it is needed
  Position begin;            // later tokens cost more to prefill (attention)
  std::int64_t last_used_ns = 0;
  std::uint32_t hits = 0;
  bool pinned = false;
};

struct EvictView {
  std::vector<EvictCandidate> candidates;  // everything in the tier
  std::int64_t now_ns = 0;
};

// Victims in the order they should leave: every child before its parent, until `needed` bytes are freed or nothing may
// leave any more. Cost: O(n log n).
std::vector<SegmentId> choose_victims(const EvictView& view, ByteCount needed);

// Expected value per byte of keeping a candidate: higher stays. Exposed for tests and logs.
double keep_value(const EvictCandidate& candidate, std::int64_t now_ns);

}  // namespace kvkeep::policy
