#include "policy/score.h"

#include <algorithm>
#include <cmath>

#include "policy/evict.h"

namespace kvkeep::policy {

namespace {

// A segment not used for this long is half as likely to be needed again: a working day's pauses keep a conversation,
// a week ends it.
constexpr double kHalfLifeNs = 6 * 3600.0 * 1e9;
// At this depth attention costs as much as everything else of a token's prefill.
constexpr double kAttentionTokens = 16384;

double half_lives(std::int64_t time_ns) { return static_cast<double>(time_ns) / kHalfLifeNs; }

double decay(const EvictCandidate& candidate, std::int64_t now_ns) {
  return std::exp2(-half_lives(std::max<std::int64_t>(0, now_ns - candidate.last_used_ns)));
}

// Without decay.
double worth(const EvictCandidate& candidate) {
  const double middle = candidate.begin.value() + candidate.tokens / 2.0;
  const double prefill_cost = candidate.tokens * (1.0 + middle / kAttentionTokens);
  return (1.0 + candidate.hits) * prefill_cost /
         static_cast<double>(std::max<std::uint64_t>(1, candidate.bytes.value()));
}

double value_of(const EvictCandidate& candidate, std::int64_t now_ns) {
  return worth(candidate) * decay(candidate, now_ns);
}

double rank_of(const EvictCandidate& candidate) {
  return std::log2(worth(candidate)) + half_lives(candidate.last_used_ns);
}

double age_rank(const EvictCandidate& candidate) { return half_lives(candidate.last_used_ns); }

}  // namespace

constexpr Score kByValue{value_of, rank_of};
constexpr Score kByRecency{decay, age_rank};

}  // namespace kvkeep::policy
