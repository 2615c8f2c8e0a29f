#include "policy/audit.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/assert.h"

namespace kvkeep::policy {

namespace {

double mean_of(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// Returns the last run that reaches beyond `from`, cut to its part there; else the last one.
TokenRange end_run(std::span<const Restorable> restorable, Position from) {
  const Restorable& last = restorable.back();
  const Position first = last.last > from ? std::max(last.first, from + 1) : last.first;
  return {first, last.last + 1};
}

}  // namespace

std::optional<TokenRange> choose_piece(std::span<const Restorable> restorable, Position from, std::uint64_t random,
                                       const AuditLimits& limits) {
  if (restorable.empty()) return std::nullopt;
  const TokenRange ends = end_run(restorable, from);
  const Position end = ends.begin + random % ends.size();
  const auto back = [end](std::size_t tokens) {
    return Position{end.value() - static_cast<std::uint32_t>(std::min<std::size_t>(tokens, end.value()))};
  };
  const Position near = back(limits.tokens);
  if (near == Position{}) return TokenRange{near, end};
  // The first place within the wanted length, or else the last one before.
  std::optional<Position> before;
  for (const Restorable& run : restorable) {
    if (run.first >= end) break;
    if (run.last >= near) return TokenRange{std::max(run.first, near), end};
    before = run.last;
  }
  const Position far = back(limits.most_tokens);
  if (before && *before >= far) return TokenRange{*before, end};
  if (!before && far == Position{}) return TokenRange{far, end};
  return std::nullopt;
}

double difference(std::span<const float> one, std::span<const float> other) {
  KVKEEP_ASSERT(one.size() == other.size() && !one.empty(), "answers over one vocabulary");
  const double one_mean = mean_of(one);
  const double other_mean = mean_of(other);
  double differences = 0;
  double spread = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    const double around = other[i] - other_mean;
    const double apart = one[i] - one_mean - around;
    differences += apart * apart;
    spread += around * around;
  }
  if (differences == 0) return 0;
  const double found = std::sqrt(differences / spread);
  return std::isnan(found) ? std::numeric_limits<double>::infinity() : found;
}

// Where the model itself computes no numbers, nothing can be said. If only the restored state gives none, that is no
// noise.
bool is_wrong(const AuditDifferences& found) {
  if (std::isinf(found.computed)) return false;
  const double noise = std::isinf(found.restored) ? found.computed : std::max(found.computed, found.restored);
  return found.least_between > std::max(kLeastAuditDifference, kAuditNoiseFactor * noise);
}

}  // namespace kvkeep::policy
