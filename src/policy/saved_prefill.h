#pragma once

// How many prefill tokens each candidate for eviction saves per byte, kept while candidates come and go. Part of
// evict_order.h.
//
// If a model has only rows, a segment saves its tokens. Where a sequence needs more, candidates need each other: a
// restorable position is made by one point, or by the windows that cover the last window before it. It saves the
// prefill from the restorable position before it. All the bytes of the position share that, and it is lost once one of
// them leaves. So
// - of restorable positions near each other each saves little, until its neighbours left;
// - one that is awaited saves all the prefill before it, and those that a tool loop passed count for little;
// - windows that complete no restorable position save nothing, and neither do rows at or after which none is left.
//
// A restorable position is named by the leaf that it ends with. Pure memory. Not thread safe.

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/types.h"
#include "policy/evict_candidate.h"

namespace kvkeep::policy {

// Within a tool loop prompts go on; only one whose history a client edited returns to a point that the loop passed, or
// one whose later points had to leave. docs/decisions/0006 has the measurement.
inline constexpr double kPassedShare = 4;

inline double saved_per_byte(std::size_t tokens, ByteCount bytes) {
  return static_cast<double>(tokens) / static_cast<double>(std::max<std::uint64_t>(1, bytes.value()));
}

class SavedPrefill {
 public:
  explicit SavedPrefill(std::uint32_t window_tokens) : window_tokens_(window_tokens) {}

  // Adds a candidate, of whatever tier, or replaces what was known of it. Candidates that continue it may be known
  // before it. Cost: what it is part of; a restorable position that comes or goes, those that follow it first on each
  // branch; a window, the windows within its length that follow it.
  void put(const EvictCandidate& candidate);
  void erase(SegmentId segment);

  // Prefill tokens that keeping it saves, per byte; 0 if it saves nothing.
  double per_byte(SegmentId segment) const;
  // Candidates of which that may have changed since this was called last; some may be named twice, or be gone.
  std::vector<SegmentId> take_changed() { return std::exchange(changed_, {}); }

  ByteCount memory() const { return ByteCount{nodes_.capacity() * sizeof(Node)}; }

 private:
  struct Node {
    EvictCandidate known;
    bool here = false;
    // A segment has those that continue it, a list through their nodes; points and windows by their end; how many
    // restorable positions lie in it or below a segment that continues it (each such segment counts once).
    SegmentId first_below;
    SegmentId next;
    SegmentId previous;
    std::vector<SegmentId> leaves;
    std::uint32_t reasons = 0;
    // A leaf has all leaves that its restorable position needs (empty: it ends none), and the positions that need it.
    std::vector<SegmentId> needs;
    std::vector<SegmentId> needed_by;
  };

  Node& node(SegmentId segment) { return nodes_[segment.value()]; }
  const Node& node(SegmentId segment) const { return nodes_[segment.value()]; }
  void make_node(SegmentId segment);
  SegmentId above(SegmentId segment) const;
  Position end_of(SegmentId leaf) const { return node(leaf).known.begin + node(leaf).known.tokens; }
  void hang(SegmentId segment);
  void unhang(SegmentId segment);
  void link(SegmentId segment);
  void unlink(SegmentId segment);
  void add_reason(SegmentId segment);
  void drop_reason(SegmentId segment);
  void renew_all(SegmentId segment);
  void renew_positions(SegmentId segment, TokenRange changed);
  void renew_position(SegmentId leaf);
  void end_position(SegmentId leaf);
  std::vector<SegmentId> needed_for(SegmentId leaf) const;
  SegmentId window_before(SegmentId segment, Position end) const;
  void note_followers(SegmentId segment, Position at);
  Position position_before(SegmentId leaf) const;
  double per_byte_at(SegmentId leaf) const;

  const std::uint32_t window_tokens_;
  std::vector<Node> nodes_;  // by id
  std::vector<SegmentId> changed_;
};

}  // namespace kvkeep::policy
