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
  // Expected value per byte of keeping what was used just now: higher stays. It halves with each half-life that passes
  // since it was used. Values of what is needed together are added.
  double (*worth)(const EvictCandidate& candidate);

  double value(const EvictCandidate& candidate, std::int64_t now_ns, std::int64_t half_life_ns) const;
  // The same order without the time, of the logarithm (of 2) of worth(): rank(a) < rank(b) where value(a, t) <
  // value(b, t), whatever t.
  static double rank(double log_worth, std::int64_t last_used_ns, std::int64_t half_life_ns) {
    return log_worth + static_cast<double>(last_used_ns) / static_cast<double>(half_life_ns);
  }
};

// What is not used for a half-life is half as likely to be needed again. At most: a working day's pauses keep a
// conversation, a week ends it.
inline constexpr std::int64_t kLongestHalfLifeNs = 6LL * 3600 * 1'000'000'000;
inline constexpr std::int64_t kShortestHalfLifeNs = 30LL * 1'000'000'000;
// Of a tier that is filled anew within so long: a quarter of that. Much longer ones keep what was used often and is
// over, much shorter ones know recency alone. docs/eviction.md has the measurement.
std::int64_t half_life_for(std::int64_t turnover_ns);

// Prefill saved per byte, weighted by how likely it is needed again: recency with decay, hits.
extern const Score kByValue;
// The longest unused first. To compare with.
extern const Score kByRecency;

}  // namespace kvkeep::policy
