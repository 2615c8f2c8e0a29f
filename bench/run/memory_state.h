#pragma once

// The memory class of kvkeep's model, as its log reports it, and the bounds for a cache of that class. Pure.

#include <cstdint>
#include <optional>
#include <string>

#include "bench/workloads/workload.h"

namespace kvkeep::bench {

struct MemoryState {
  std::string memory_class;                  // "sliceable", "hybrid"...; empty: not in the log
  std::uint64_t row_bytes_per_token = 0;     // 0: the model has no rows
  std::uint64_t window_bytes_per_token = 0;  // of rows of window layers; 0: the model has none
  bool has_points = false;                   // restored at points: state at one position, or all of it

  // Returns true if the size of a token's state is known at all.
  bool is_known() const { return row_bytes_per_token > 0 || window_bytes_per_token > 0 || has_points; }
};

MemoryState memory_state_of(const std::string& log);

// The most prefilled tokens / tokens never computed before, if any position can be restored...
inline constexpr double kRatioBound = 1.02;
// ...and if only points can, between which a prompt may leave the known tokens. A workload may have a bound of its own
// for that.
inline constexpr double kPointRatioBound = 1.05;

// Returns nullopt for a model that is served without a cache.
std::optional<double> ratio_bound(const MemoryState& state, const Workload& workload);

}  // namespace kvkeep::bench
