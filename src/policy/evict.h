#pragma once

// Which segments leave a tier when it is over its budget. Pure: a view in, names of victims out.
//
// Unit of value: prefill time saved per byte, weighted by how likely a segment is needed again (recency with decay,
// hits). Rows leave leaves first; never what is pinned (in use by a running or incoming prompt) nor what was just
// written. If nothing may leave, the answer is shorter than asked and the caller refuses the new store.
//
// What somebody asked to keep until a time leaves when nothing else may, within limits (EvictView::kept_room).
//
// Where a sequence needs more than rows to stand, points and windows are candidates too. They leave at any depth; what
// only they made useful is worth nothing then and leaves next. worth.h has the values.

#include <cstdint>
#include <vector>

#include "base/types.h"
#include "policy/score.h"

namespace kvkeep::policy {

enum class CandidateKind { kRows, kWindow, kPoint };

// What is known of who returns to where a point or window ends.
enum class Outlook : std::uint8_t {
  kOpen,
  kAwaited,  // the next user message returns to it, for a template renders anew what follows it
  kPassed,   // it lies in a tool loop that went on and that the next user message renders anew
};

struct EvictCandidate {
  SegmentId segment;
  SegmentId parent;          // kRootSegment: none that counts in this tier
  ByteCount bytes;           // what leaving frees
  std::uint32_t tokens = 0;  // what must be prefilled again if it is needed; a point: 0
  Position begin;            // later tokens cost more to prefill (attention)
  std::int64_t last_used_ns = 0;
  std::uint32_t hits = 0;
  bool pinned = false;
  std::int64_t kept_until_ns = 0;  // somebody asked for it to stay so long; 0: nobody
  // The rest matters only if EvictView::needs_points.
  CandidateKind kind = CandidateKind::kRows;
  SegmentId above = {};  // its parent in the index, in whatever tier
  bool copy = false;     // another tier has it too: nothing becomes unreachable if it leaves this one
  bool absent = false;   // another tier has it alone: it never leaves here, but tells what can be restored
  SegmentId base = {};   // a point that this one is built on: it leaves later, as a parent does
  Outlook outlook = Outlook::kOpen;
};

// Nobody can ask for more. A time beyond it comes of a clock that went back, and counts for nothing.
inline constexpr std::int64_t kLongestKeepNs = 24LL * 3600 * 1'000'000'000;

struct EvictView {
  // Everything in the tier; if needs_points, everything in the index.
  std::vector<EvictCandidate> candidates;
  std::int64_t now_ns = 0;
  bool needs_points = false;        // rows alone put no sequence to stand
  std::uint32_t window_tokens = 0;  // how far back windows must reach
  // Of what is kept until a time, so many bytes leave last: those kept longest, of a path its beginning. The rest
  // leaves by its value, so that nobody fills a tier for a day.
  ByteCount kept_room = {};
  bool points_only = false;  // rows stay: it is points and windows that take too much
  const Score* score = &kByValue;
  std::int64_t half_life_ns = kLongestHalfLifeNs;
};

// Victims in the order they should leave: every child before its parent, until `needed` bytes are freed or nothing may
// leave any more. Cost: O(n log n); evict_order.h keeps an order.
std::vector<SegmentId> choose_victims(const EvictView& view, ByteCount needed);

// kByValue of rows that are of use: higher stays. Exposed for tests and logs.
inline double keep_value(const EvictCandidate& candidate, std::int64_t now_ns) {
  return kByValue.value(candidate, now_ns, kLongestHalfLifeNs);
}

}  // namespace kvkeep::policy
