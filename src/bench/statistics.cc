#include "bench/statistics.h"

#include <algorithm>
#include <cmath>

#include "base/assert.h"

namespace kvkeep::bench {
namespace {

// Hyndman and Fan, "Sample quantiles in statistical packages" (1996), definition 7: rank (n - 1) p, counted from 0.
double quantile(const std::vector<double>& sorted, double share) {
  const double rank = static_cast<double>(sorted.size() - 1) * share;
  const double below = std::floor(rank);
  const auto i = static_cast<std::size_t>(below);
  if (i + 1 == sorted.size()) return sorted[i];
  return sorted[i] + (rank - below) * (sorted[i + 1] - sorted[i]);
}

}  // namespace

Quartiles quartiles_of(std::vector<double> values) {
  KVKEEP_ASSERT(!values.empty(), "nothing has no quartiles");
  std::ranges::sort(values);
  return {.low = quantile(values, 0.25), .median = quantile(values, 0.5), .high = quantile(values, 0.75)};
}

}  // namespace kvkeep::bench
