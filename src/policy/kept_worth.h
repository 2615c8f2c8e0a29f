#pragma once

// What keeping each candidate is worth (worth.h), kept while candidates come and go: of a change only what it concerns
// is worked out anew. Part of evict_order.h. Worth answers the same from a view of everything, and is the naive twin.
//
// A stop is named by the leaf that it ends with. Pure memory. Not thread safe.

#include <cstdint>
#include <utility>
#include <vector>

#include "base/types.h"
#include "policy/evict.h"
#include "policy/score.h"

namespace kvkeep::policy {

class KeptWorth {
 public:
  KeptWorth(const Score& score, std::uint32_t window_tokens) : score_(&score), window_tokens_(window_tokens) {}

  // Adds a candidate, of whatever tier, or replaces what was known of it. What continues it may be known before it.
  // Cost: what it is part of; a stop that comes or goes, the stops that follow it first on each branch; a window, the
  // windows within reach that follow it.
  void put(const EvictCandidate& candidate);
  void erase(SegmentId segment);

  // The logarithm (of 2) of Score::worth() of all that keeping it saves; nothing: minus infinity.
  double log_worth(SegmentId segment) const;
  // Of these it may have changed since this was called last; some may be named twice, or be gone.
  std::vector<SegmentId> take_changed() { return std::exchange(changed_, {}); }

  ByteCount memory() const { return ByteCount{nodes_.capacity() * sizeof(Node)}; }

 private:
  struct Node {
    EvictCandidate known;
    bool here = false;
    // Of a segment: those that continue it, a list through their nodes; points and windows by their end; how many stops
    // end in it or lie below a segment that continues it (each such segment counts once).
    SegmentId first_below;
    SegmentId next;
    SegmentId previous;
    std::vector<SegmentId> leaves;
    std::uint32_t reasons = 0;
    // Of a leaf: all that its stop needs (nothing: it ends none), and the stops that need it.
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
  void renew_stops(SegmentId segment, TokenRange changed);
  void renew_stop(SegmentId leaf);
  void end_stop(SegmentId leaf);
  std::vector<SegmentId> needed_for(SegmentId leaf) const;
  SegmentId window_before(SegmentId segment, Position end) const;
  void note_followers(SegmentId segment, Position at);
  Position stop_before(SegmentId leaf) const;
  double worth_of_stop(SegmentId stop, const EvictCandidate& leaf) const;

  const Score* score_;
  const std::uint32_t window_tokens_;
  std::vector<Node> nodes_;  // by id
  std::vector<SegmentId> changed_;
};

}  // namespace kvkeep::policy
