#pragma once

// What keeping something is worth, by what is known of it alone: the seam where another score (a learned one) goes in.
// Part of eviction; who needs whom (children, stops: evict.h, worth.h) is not its business.
//
// Of two candidates that do not change the same one must leave first at any time: an order that is kept as candidates
// change (evict_order.h) then stays right while time passes. Decay by one half-life for all does that.

#include <cstdint>

namespace kvkeep::policy {

struct EvictCandidate;

struct Score {
  // Expected value per byte of keeping it, at `now_ns`: higher stays. Values of what is needed together are added.
  double (*value)(const EvictCandidate& candidate, std::int64_t now_ns);
  // The same order without the time: rank(a) < rank(b) where value(a, t) < value(b, t), whatever t.
  double (*rank)(const EvictCandidate& candidate);
};

// Prefill saved per byte, weighted by how likely it is needed again: recency with decay, hits.
extern const Score kByValue;
// The longest unused first. To compare with.
extern const Score kByRecency;

}  // namespace kvkeep::policy
