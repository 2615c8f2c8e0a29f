#pragma once

// What got worse since a report that was kept: counts and ratios, never times, which are the machine's.

#include <string>
#include <vector>

#include "bench/figures.h"

namespace kvkeep::bench {

// A ratio may be this much higher than the kept one.
inline constexpr double kRatioTolerance = 0.005;

// One line for each run (same workload, server and variant) whose ratio is higher by more than kRatioTolerance, whose
// requests, prompt or ideal tokens differ, or which was counted otherwise; for runs of `now` that were not kept, and
// for kept ones of a workload in `now` that were not played.
std::vector<std::string> regressions(const Report& now, const Report& kept);

// The report without what differs from run to run and from machine to machine: times, machine, versions, parts, and
// which tier cached tokens came from. For keeping.
Report counts_only(Report report);

}  // namespace kvkeep::bench
