#pragma once

// Two servers of kvkeep that share an engine (--share) and no disk: how much the second one prefills of state that the
// first one computed, counted at both engines.
//
// - The second server's first turn: a conversation of some thousand tokens, whose next turn goes to the other server.
// - A conversation that wanders, each turn at the other server.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/report/figures.h"
#include "bench/run/bench.h"
#include "bench/run/interrupt.h"

namespace kvkeep::bench {

struct SharingOptions {
  std::string url;  // of the engine, which both servers use; prompts are new in each run
  std::uint32_t prompt_tokens = 4'096;
  std::size_t rounds = 3;  // conversations whose second turn is counted
  std::size_t turns = 8;   // of the one that wanders
};

// Steps are requests. kAborted if interrupted, kUnsupported if a reply is not what was asked for. Otherwise errors of
// starting a server.
Result<std::vector<PartFigures>> measure_sharing(const BenchOptions& bench, const SharingOptions& options,
                                                 const std::function<void(std::size_t done, std::size_t of)>& progress,
                                                 Interrupt& interrupt);

}  // namespace kvkeep::bench
