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

std::optional<double> RunFigures::ratio() const {
  const std::uint64_t ideal = ideal_tokens();
  if (ideal == 0) return std::nullopt;
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
  switch (goal->kind) {
    case Goal::Kind::kAtMost:
      out.goal = fmt::format("<= {}", goal->value);
      out.holds = out.median <= goal->value;
      break;
    case Goal::Kind::kAtLeast:
      out.goal = fmt::format(">= {}", goal->value);
      out.holds = out.median >= goal->value;
      break;
    case Goal::Kind::kWithin:
      out.goal = fmt::format("{} to {}", goal->value, goal->most);
      out.holds = goal->value <= out.median && out.median <= goal->most;
      break;
  }
  return out;
}

}  // namespace kvkeep::bench
