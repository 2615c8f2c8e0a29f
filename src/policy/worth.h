#pragma once

// What keeping each candidate is worth while others leave. Part of eviction.
//
// With rows alone, every segment is worth the prefill it saves. Where a sequence needs more to stand, candidates need
// each other: a *stop* is a position where a prompt can be put to stand, by one point or by the windows that cover the
// last window before it. It saves the prefill from the stop before it; that is shared by all the bytes it takes, and it
// is lost as soon as one of them is. So
// - of stops near each other each is worth little, until its neighbours left;
// - a stop that is awaited is worth all the prefill before it, and those that a tool loop passed are worth little;
// - windows that complete no stop are worth nothing, and neither are rows at or after which no stop is left.

#include <cstddef>
#include <unordered_map>
#include <vector>

#include "policy/evict.h"

namespace kvkeep::policy {

// Within a tool loop prompts go on; only one whose history a client edited returns to a point that the loop passed, or
// one whose later points had to leave. docs/decisions/0006 has the measurement.
inline constexpr double kPassedShare = 4;

class Worth {
 public:
  // The view must outlive it. Cost: O(n log n), n times the leaves of a window where there are windows.
  explicit Worth(const EvictView& view);

  // Expected value per byte of keeping a candidate, as things are: higher stays.
  double value(std::size_t candidate) const;
  // The candidate is nowhere any more. Returns those that are worth less now (others may be worth more).
  std::vector<std::size_t> forget(std::size_t candidate);

 private:
  static constexpr std::size_t kNone = SIZE_MAX;
  struct Stop {
    Position at;
    std::size_t home = kNone;         // the segment it lies in
    std::vector<std::size_t> leaves;  // all of them are needed
    Outlook outlook = Outlook::kOpen;
    bool live = true;
  };
  // What hangs in a segment of rows, by place among the candidates.
  struct Segment {
    std::vector<std::size_t> continued_by;  // segments
    std::vector<std::size_t> windows;
    std::vector<std::size_t> stops;  // by Stop::at
    std::size_t reasons = 0;         // live stops in it and segments below it that have reasons
    bool reachable = true;           // false: all stops in it and below it have ended
  };

  void hang_leaves();
  void add_stop(std::size_t leaf);
  bool covered(std::size_t window, std::vector<std::size_t>& leaves) const;
  std::size_t window_before(std::size_t segment, Position end) const;
  void add_reason(std::size_t segment);
  void drop_reason(std::size_t segment, std::vector<std::size_t>& fell);
  void end_stop(std::size_t stop, std::vector<std::size_t>& fell);
  void end_below(std::size_t segment, std::vector<std::size_t>& fell);
  Position stop_before(const Stop& stop) const;
  double keep_value(const EvictCandidate& candidate) const;
  double value_of(const Stop& stop, const EvictCandidate& leaf) const;

  const EvictView& view_;
  std::vector<std::size_t> above_;  // the segment a candidate continues or lies in
  std::vector<Segment> segments_;   // by candidate; empty for leaves
  std::vector<Stop> stops_;
  std::vector<std::vector<std::size_t>> stops_of_;  // by leaf: those that need it
};

}  // namespace kvkeep::policy
