#include "bench/run/memory_state.h"

#include <charconv>
#include <string_view>

namespace kvkeep::bench {
namespace {

constexpr std::string_view kClassWords = "memory class ";
constexpr std::string_view kUncachedWords = "served without a prefix cache";

// Returns the whole number right before `words`; 0 if there is none.
std::uint64_t number_before(std::string_view log, std::string_view words) {
  const std::size_t end = log.find(words);
  if (end == std::string_view::npos || end == 0) return 0;
  const std::size_t begin = log.find_last_not_of("0123456789", end - 1) + 1;  // 0 if all are digits
  std::uint64_t value = 0;
  const auto read = std::from_chars(log.data() + begin, log.data() + end, value);
  return read.ec == std::errc() ? value : 0;
}

std::string class_in(std::string_view log) {
  if (log.find(kUncachedWords) != std::string_view::npos) return "uncached";
  const std::size_t begin = log.find(kClassWords);
  if (begin == std::string_view::npos) return {};
  const std::string_view rest = log.substr(begin + kClassWords.size());
  return std::string(rest.substr(0, rest.find_first_of(": \n")));
}

}  // namespace

MemoryState memory_state_of(const std::string& log) {
  const std::string memory_class = class_in(log);
  return {.memory_class = memory_class,
          .row_bytes_per_token = number_before(log, " bytes of rows per token"),
          .window_bytes_per_token = number_before(log, " of window rows"),
          .has_points = memory_class == "hybrid" || memory_class == "recurrent" || memory_class == "opaque"};
}

std::optional<double> ratio_bound(const MemoryState& state, const Workload& workload) {
  if (state.memory_class == "uncached") return std::nullopt;
  if (state.has_points) return workload.point_bound.value_or(kPointRatioBound);
  return kRatioBound;
}

}  // namespace kvkeep::bench
