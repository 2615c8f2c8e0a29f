#pragma once

// What a kvkeep says of its model's memory in its log, and what may be asked of a cache for it. Pure.

#include <cstdint>
#include <optional>
#include <string>

#include "bench/workloads/workload.h"

namespace kvkeep::bench {

struct MemoryState {
  std::string memory_class;                  // "sliceable", "hybrid"...; empty: the log does not say
  std::uint64_t row_bytes_per_token = 0;     // 0: there are no rows
  std::uint64_t window_bytes_per_token = 0;  // of rows of window layers; 0: there are none
  bool has_points = false;                   // restored at points: state at one position, or all of it

  // Whether anything at all is known of what a token's state takes.
  bool is_known() const { return row_bytes_per_token > 0 || window_bytes_per_token > 0 || has_points; }
};

MemoryState memory_state_of(const std::string& log);

// Prefilled tokens / tokens never computed before, at most: where any position can be restored...
inline constexpr double kRatioBound = 1.02;
// ...and where only points can, between which a prompt may leave what is known. A workload may have a bound of its own
// there.
inline constexpr double kPointRatioBound = 1.05;

// None: a model that is served without a cache.
std::optional<double> ratio_bound(const MemoryState& state, const Workload& workload);

}  // namespace kvkeep::bench
