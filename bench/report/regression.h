#pragma once

// Finds figures that got worse since a kept report: counts and ratios, never times, which depend on the machine.

#include <cstdint>
#include <string>
#include <vector>

#include "bench/report/figures.h"

namespace kvkeep::bench {

// A ratio may be this much higher than the kept one.
inline constexpr double kRatioTolerance = 0.005;

// The workloads that should have been played.
enum class Scope : std::uint8_t {
  kChosen,  // some: kept ones that were not played are ignored
  kAll,     // all: a kept one that was not played is missing
};

// Returns one line for each run (same workload, server and variant) whose ratio is higher by more than kRatioTolerance,
// whose requests, prompt or ideal tokens differ, or that was counted otherwise; for runs of `now` that were not kept;
// for kept runs of a workload in `now` that were not played, and, with kAll, for kept workloads that were not. Also for
// each count with a goal that is higher by more than kRatioTolerance where less is better, whose goal is another one,
// or that was not kept; problems_of() has goals that are not met.
std::vector<std::string> regressions(const Report& now, const Report& kept, Scope scope = Scope::kChosen);

// Returns the report, to be kept, without what differs between runs and machines: times, machine, versions, parts that
// are no counts with a goal, and the tier that cached tokens came from.
Report counts_only(Report report);

}  // namespace kvkeep::bench
