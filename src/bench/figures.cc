#include "bench/figures.h"

#include <numeric>

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

}  // namespace kvkeep::bench
