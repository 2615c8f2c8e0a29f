#pragma once

// Many requests at the same time: plays the scenarios of load_scenarios.h against kvkeep and a peer in turn. Each run
// of a scenario starts its server anew, and only one server runs at a time. Servers compute with the threads that they
// take by default, unless a flag says otherwise.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/report/figures.h"
#include "bench/run/bench.h"
#include "bench/run/interrupt.h"

namespace kvkeep::bench {

struct LoadOptions {
  std::vector<std::string> scenarios;  // names; empty: all
  std::size_t rounds = 3;              // runs of each scenario on each server, at least 1
  bool quick = false;                  // few tokens, and goals only for counts
};

// The names of all scenarios.
std::vector<std::string> load_scenario_names();

struct LoadFigures {
  std::vector<PartFigures> parts;     // per figure: kvkeep / the best peer, then each server's own
  std::vector<RunFigures> counts;     // of the first round that did not fail
  std::vector<std::string> problems;  // servers that did not start, requests that were not answered
};

// Steps are runs of a scenario on a server. kAborted if interrupted; every other failure is a problem.
Result<LoadFigures> measure_load(const BenchOptions& bench, const LoadOptions& options,
                                 const std::function<void(std::size_t done, std::size_t of)>& progress,
                                 Interrupt& interrupt);

// ---- for measure_load() and its tests ----

struct LoadFigure;

struct LoadSide {
  std::string name;
  std::vector<std::vector<LoadFigure>> rounds;  // the figures of each; none if it failed
};

// Makes ratios of the rounds in which no side failed, and parts of each side's own; the first side is kvkeep. Pure.
std::vector<PartFigures> load_parts(const std::vector<LoadSide>& sides, bool has_time_goals);

}  // namespace kvkeep::bench
