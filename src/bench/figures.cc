#include "bench/figures.h"

#include <fmt/format.h>

#include <numeric>
#include <utility>

#include "bench/statistics.h"

namespace kvkeep::bench {
namespace {

std::uint64_t sum(const std::vector<RequestFigures>& requests, std::uint64_t RequestFigures::* field) {
  return std::transform_reduce(requests.begin(), requests.end(), std::uint64_t{0}, std::plus<>{},
                               [field](const RequestFigures& request) { return request.*field; });
}

}  // namespace

std::uint64_t RunFigures::prompt_tokens() const { return sum(requests, &RequestFigures::prompt_tokens); }
std::uint64_t RunFigures::prefilled_tokens() const { return sum(requests, &RequestFigures::prefilled_tokens); }
std::uint64_t RunFigures::ideal_tokens() const { return sum(requests, &RequestFigures::ideal_tokens); }

double RunFigures::ratio() const {
  const std::uint64_t ideal = ideal_tokens();
  return ideal == 0 ? 0 : static_cast<double>(prefilled_tokens()) / static_cast<double>(ideal);
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
  const bool at_most = goal->kind == Goal::Kind::kAtMost;
  out.goal = fmt::format("{} {}", at_most ? "<=" : ">=", goal->value);
  out.holds = at_most ? out.median <= goal->value : out.median >= goal->value;
  return out;
}

}  // namespace kvkeep::bench
