#pragma once

// What kvkeep costs where its cache finds nothing: CPU seconds per token beside a peer's, one request at a time.
//
// Both servers run at once and are asked in turn, who goes first changes with each pair; only one works at a time. CPU
// time does not count what other programs do, but they still disturb it, so the figure is the median over pairs of
// neighbouring runs. All prompts differ from their first words on: nothing can be reused. What kvkeep writes after a
// reply is part of its price.

#include <functional>
#include <vector>

#include "base/result.h"
#include "bench/figures.h"
#include "bench/run/interrupt.h"
#include "bench/run/server_process.h"

namespace kvkeep::bench {

struct ParityOptions {
  std::size_t pairs = 15;  // at least 1
  int settle_ms = 400;     // after a reply, until the clock is read
};

// Flags that both servers are started with, besides -m.
std::vector<std::string> parity_flags();

// Both are started. For prefill, decode, and decode behind a long prompt: the ratio with its goal, and each server's
// microseconds of CPU per token. kUnsupported: a reply is not the one that was asked for (another length, or cached).
Result<std::vector<PartFigures>> measure_parity(ServerProcess& ours, ServerProcess& theirs,
                                                const ParityOptions& options,
                                                const std::function<void(std::size_t done, std::size_t of)>& progress,
                                                Interrupt& interrupt);

}  // namespace kvkeep::bench
