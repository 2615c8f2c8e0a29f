#pragma once

// A segment, a point or a window of one tier as eviction knows it, and when it has outlived its time. Pure.
//
// Rows leave a tier from the ends of paths. Where rows by themselves give no restorable position, points and windows
// are candidates too, and leave at any depth.

#include <cstdint>

#include "base/types.h"

namespace kvkeep::policy {

enum class CandidateKind { kRows, kWindow, kPoint };

// Tells whether a request will return to where a point or window ends.
enum class Outlook : std::uint8_t {
  kOpen,     // nothing is known
  kAwaited,  // the next user message returns to it, for a template renders anew what follows it
  kPassed,   // it lies in a tool loop that went on and that the next user message renders anew
};

struct EvictCandidate {
  SegmentId segment;
  SegmentId parent;          // leaves this tier later; kRootSegment: none does
  ByteCount bytes;           // that its leaving frees
  std::uint32_t tokens = 0;  // that must be prefilled again if it is needed; a point: 0
  Position begin;
  std::int64_t last_used_ns = 0;   // another time than before is another use
  std::int64_t kept_until_ns = 0;  // a request asked for it to stay so long; 0: none did
  // The rest matters only where sequences need points or windows.
  CandidateKind kind = CandidateKind::kRows;
  SegmentId above = {};  // its parent in the index, in whatever tier
  bool absent = false;   // only other tiers have it: it never leaves here, but shows what can be restored
  SegmentId base = {};   // a point that this one is built on: it leaves later, as a parent does
  Outlook outlook = Outlook::kOpen;
};

// The most that a request can ask for. A later time comes from a clock that was set back, and counts for nothing.
inline constexpr std::int64_t kLongestKeepNs = 24LL * 3600 * 1'000'000'000;

struct Lifetime {
  std::int64_t last_used_ns = 0;
  std::int64_t kept_until_ns = 0;  // see EvictCandidate
};

// Returns true if it was not used for the time to live (0: for ever), and so leaves whether there is room or not. A
// last use that is yet to come is of a clock that was set back: it counts as now.
constexpr bool expired(const Lifetime& known, std::int64_t now_ns, std::int64_t time_to_live_ns) {
  if (time_to_live_ns <= 0 || now_ns - known.last_used_ns < time_to_live_ns) return false;
  const std::int64_t kept_ns = known.kept_until_ns - now_ns;
  return kept_ns <= 0 || kept_ns > kLongestKeepNs;
}

}  // namespace kvkeep::policy
