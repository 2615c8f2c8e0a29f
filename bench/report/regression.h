#pragma once

// What got worse since a report that was kept: counts and ratios, never times, which are the machine's.

#include <cstdint>
#include <string>
#include <vector>

#include "bench/report/figures.h"

namespace kvkeep::bench {

// A ratio may be this much higher than the kept one.
inline constexpr double kRatioTolerance = 0.005;

// Which workloads were to be played.
enum class Scope : std::uint8_t {
  kChosen,  // some: kept ones that were not played say nothing
  kAll,     // all there are: a kept one that was not played is gone
};

// One line for each run (same workload, server and variant) whose ratio is higher by more than kRatioTolerance, whose
// requests, prompt or ideal tokens differ, or which was counted otherwise; for runs of `now` that were not kept; for
// kept ones of a workload in `now` that were not played, and of kAll, for kept workloads that were not.
std::vector<std::string> regressions(const Report& now, const Report& kept, Scope scope = Scope::kChosen);

// The report without what differs from run to run and from machine to machine: times, machine, versions, parts, and
// which tier cached tokens came from. For keeping.
Report counts_only(Report report);

}  // namespace kvkeep::bench
