#include "bench/report/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/assert.h"
#include "text/terminal.h"

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

std::uint64_t sum(const std::vector<RequestFigures>& requests, std::uint64_t RequestFigures::* field) {
  return std::transform_reduce(requests.begin(), requests.end(), std::uint64_t{0}, std::plus<>{},
                               [field](const RequestFigures& request) { return request.*field; });
}

bool meets(double value, const Goal& goal) {
  const double most = goal.kind == Goal::Kind::kWithin ? goal.most : goal.value;
  const bool is_enough = goal.kind == Goal::Kind::kAtMost || value >= goal.value;
  const bool is_little_enough = goal.kind == Goal::Kind::kAtLeast || value <= most;
  return is_enough && is_little_enough;
}

std::string words_of(const Goal& goal) {
  switch (goal.kind) {
    case Goal::Kind::kAtMost: return fmt::format("<= {}", goal.value);
    case Goal::Kind::kAtLeast: return fmt::format(">= {}", goal.value);
    case Goal::Kind::kWithin: return fmt::format("{} to {}", goal.value, goal.most);
  }
  return {};
}

// Why these quartiles do not show whether the goal is met; "" if they do.
std::string doubt_about(const Quartiles& quartiles, const Goal& goal) {
  if (goal.possible_most && quartiles.median > *goal.possible_most) {
    return fmt::format("its median is above {}, the most that is possible", *goal.possible_most);
  }
  const bool verdict = meets(quartiles.median, goal);
  if (meets(quartiles.low, goal) == verdict && meets(quartiles.high, goal) == verdict) return "";
  return "its quartiles lie on both sides of the goal";
}

}  // namespace

Quartiles quartiles_of(std::vector<double> values) {
  KVKEEP_ASSERT(!values.empty(), "no values have no quartiles");
  std::ranges::sort(values);
  return {.low = quantile(values, 0.25), .median = quantile(values, 0.5), .high = quantile(values, 0.75)};
}

std::string spread(const Quartiles& quartiles, int digits) {
  return fmt::format("{} ({}-{})", text::fixed(quartiles.median, digits), text::fixed(quartiles.low, digits),
                     text::fixed(quartiles.high, digits));
}

std::uint64_t RunFigures::prompt_tokens() const { return sum(requests, &RequestFigures::prompt_tokens); }
std::uint64_t RunFigures::prefilled_tokens() const { return sum(requests, &RequestFigures::prefilled_tokens); }
std::uint64_t RunFigures::ideal_tokens() const { return sum(requests, &RequestFigures::ideal_tokens); }

std::optional<double> RunFigures::ratio() const {
  const std::uint64_t ideal = ideal_tokens();
  if (ideal == 0 || known_before > 0 || !refused.empty()) return std::nullopt;
  return static_cast<double>(prefilled_tokens()) / static_cast<double>(ideal);
}

PartFigures summarize(std::string name, std::string unit, std::vector<double> samples, std::optional<Goal> goal) {
  PartFigures out;
  out.name = std::move(name);
  out.unit = std::move(unit);
  out.samples = samples.size();
  const Quartiles quartiles = quartiles_of(std::move(samples));
  out.median = quartiles.median;
  out.low_quartile = quartiles.low;
  out.high_quartile = quartiles.high;
  if (!goal) return out;
  out.goal = words_of(*goal);
  out.unmeasurable = doubt_about(quartiles, *goal);
  if (out.unmeasurable.empty()) out.holds = meets(quartiles.median, *goal);
  return out;
}

}  // namespace kvkeep::bench
