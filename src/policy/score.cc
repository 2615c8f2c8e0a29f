#include "policy/score.h"

#include <algorithm>
#include <cmath>

#include "policy/evict.h"

namespace kvkeep::policy {

namespace {

// At this depth attention costs as much as everything else of a token's prefill.
constexpr double kAttentionTokens = 16384;

double prefill_per_byte(const EvictCandidate& candidate) {
  const double middle = candidate.begin.value() + candidate.tokens / 2.0;
  const double prefill_cost = candidate.tokens * (1.0 + middle / kAttentionTokens);
  return (1.0 + candidate.hits) * prefill_cost /
         static_cast<double>(std::max<std::uint64_t>(1, candidate.bytes.value()));
}

double same(const EvictCandidate& /*candidate*/) { return 1; }

}  // namespace

double Score::value(const EvictCandidate& candidate, std::int64_t now_ns, std::int64_t half_life_ns) const {
  const auto age_ns = static_cast<double>(std::max<std::int64_t>(0, now_ns - candidate.last_used_ns));
  return worth(candidate) * std::exp2(-age_ns / static_cast<double>(half_life_ns));
}

std::int64_t half_life_for(std::int64_t turnover_ns) {
  return std::clamp(turnover_ns / 4, kShortestHalfLifeNs, kLongestHalfLifeNs);
}

constexpr Score kByValue{prefill_per_byte};
constexpr Score kByRecency{same};

}  // namespace kvkeep::policy
