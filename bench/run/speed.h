#pragma once

// The time that the cache saves, and how near that is to all that could be saved. On one server of kvkeep (two for the
// loop), one request at a time; wall time, greedy replies of a few tokens.
//
// - A long prompt, then turns of 3 % of it. Cold: nothing of the prompt is known. Alone: all tokens before the turn are
// still in the model's memory, as the last request left them; nothing is restored, so that this is the time to compute
// a turn at that depth. Warm: after another conversation as long, and after a kill. The speed-up is cold / warm, the
// ceiling cold / alone; speed-up / ceiling is alone / warm, of neighbouring turns.
// - Twelve turns, without and with the cache: wall time and the 90th percentile of TTFT.
// - A hundred requests after one system prompt: except for the first, only new tokens may be computed.

#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "bench/report/figures.h"
#include "bench/run/bench.h"
#include "bench/run/interrupt.h"

namespace kvkeep::bench {

struct SpeedOptions {
  std::uint32_t prompt_tokens = 16'384;
  std::size_t conversations = 2;  // long ones, at least 2: each interrupts the others
  std::size_t rounds = 2;         // turns of each conversation after each event; cheap compared with the first ones
  bool has_goals = true;          // for times; false: those of a tiny model mean nothing
};

// Steps are requests. kAborted if interrupted, kUnsupported if a reply is not what was asked for. Otherwise errors of
// starting a server.
Result<std::vector<PartFigures>> measure_speed(const BenchOptions& bench, const SpeedOptions& options,
                                               const std::function<void(std::size_t done, std::size_t of)>& progress,
                                               Interrupt& interrupt);

}  // namespace kvkeep::bench
