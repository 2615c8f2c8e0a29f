#pragma once

// Conclusions from a report's figures: totals of a run, the runs of one workload, all problems.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/report/figures.h"

namespace kvkeep::bench {

// The longest name of a workload, server or part in tables, in characters.
inline constexpr std::size_t kMostNameCharacters = 120;

struct RunSummary {
  std::uint64_t prompt_tokens = 0;
  std::uint64_t cached_tokens = 0;
  std::uint64_t prefilled_tokens = 0;
  std::uint64_t ideal_tokens = 0;
  std::size_t failed = 0;            // requests
  std::optional<Quartiles> ttft_ms;  // of answered requests; none: none was answered
  std::optional<double> ratio;       // none: no prompt had a new position
  // Some request was answered, and none refused; else a run's counts are unknown, not 0.
  bool answered = false;
  bool above_bound = false;
};

RunSummary summary_of(const RunFigures& run);

// Returns true for no reply, a status outside 200 to 299, or an error in the reply.
bool failed(const RequestFigures& request);

// Returns a count if it is known: the zeros of a failed request are not.
std::optional<std::uint64_t> known(const RequestFigures& request, std::uint64_t count);

// Returns a name as tables print it.
std::string named(const std::string& text);

// Returns "kvkeep", or "kvkeep (-c too small)".
std::string server_and_variant(const RunFigures& run);
// Returns the title, or the short name if there is none.
std::string title_of(const RunFigures& run);

// Groups the runs of each workload; workloads and their runs are in the order played.
std::vector<const RunFigures*> by_workload(const Report& report);

// Returns the ratios in one line, which opens a report: "kvkeep 1.00, llama-server up to 3.67"; "" if nothing was
// played.
std::string finding_of(const Report& report);
// Returns one line per workload that a server refused, with its reason.
std::vector<std::string> refusals_of(const Report& report);
// Returns one line per problem: failures in runs, ratios above their bounds, parts that miss their goals, then the
// report's own problems.
std::vector<std::string> problems_of(const Report& report);
// Returns one line for each part whose goal could not be judged on this machine at this time, with the reason.
std::vector<std::string> unmeasurable_parts(const Report& report);

}  // namespace kvkeep::bench
