#pragma once

// Conclusions from a report's figures: totals of a run, runs of one workload together, everything that is wrong.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/report/figures.h"

namespace kvkeep::bench {

// Longest name of a workload, server or part in tables, in characters.
inline constexpr std::size_t kMostNameCharacters = 120;

struct RunSummary {
  std::uint64_t prompt_tokens = 0;
  std::uint64_t cached_tokens = 0;
  std::uint64_t prefilled_tokens = 0;
  std::uint64_t ideal_tokens = 0;
  std::size_t failed = 0;            // requests
  std::optional<Quartiles> ttft_ms;  // of those that were answered; none: none was
  std::optional<double> ratio;       // none: no prompt had a new position
  bool answered = false;             // any request; the counts of a run without answers are not known, not 0
  bool above_bound = false;
};

RunSummary summary_of(const RunFigures& run);

// No reply, a status outside 200 to 299, or an error in the reply.
bool failed(const RequestFigures& request);

// A count as far as it is known: the zeros of a failed request are not.
std::optional<std::uint64_t> known(const RequestFigures& request, std::uint64_t count);

// A name as tables print it.
std::string named(const std::string& text);

// "kvkeep", or "kvkeep (-c too small)"
std::string server_and_variant(const RunFigures& run);
// The title, or the short name where it has none.
std::string title_of(const RunFigures& run);

// Runs of one workload side by side; workloads and the runs of each in the order played.
std::vector<const RunFigures*> by_workload(const Report& report);

// One line each: what went wrong in runs, ratios above their bounds, parts that miss their goals, then the report's
// own.
std::vector<std::string> problems_of(const Report& report);
// One line for each part whose goal could not be judged on this machine at this time, and why.
std::vector<std::string> unmeasurable_parts(const Report& report);

}  // namespace kvkeep::bench
