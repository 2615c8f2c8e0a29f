#pragma once

// What the cache saves in time, and how near that is to all that could be saved. On one server of kvkeep (two for the
// loop), one request at a time; wall time, greedy replies of a few tokens.
//
// - A long prompt, then turns of 3 % of it. Cold: nothing of the prompt is known. Alone: all before the turn still lies
//   in the model's memory, just as the last request left it; nothing is restored, so this is what computing a turn at
//   that depth takes. Warm: once another conversation as long was there, and after a kill. Its speed-up is cold / warm,
//   the ceiling cold / alone; speed-up / ceiling is alone / warm, of neighbouring turns.
// - Twelve turns, without and with the cache: wall time and the 90th percentile of TTFT.
// - A hundred requests behind one system prompt: of all but the first only what is new may be computed.

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
  std::size_t conversations = 2;  // long ones, at least 2: each is another's other conversation
  std::size_t rounds = 2;         // turns of each conversation and occasion; cheap beside the first ones
  bool has_goals = true;          // of times; false: a tiny model's say nothing
};

// Steps are requests. kAborted: interrupted. kUnsupported: a reply is not what was asked for. Else errors of starting a
// server.
Result<std::vector<PartFigures>> measure_speed(const BenchOptions& bench, const SpeedOptions& options,
                                               const std::function<void(std::size_t done, std::size_t of)>& progress,
                                               Interrupt& interrupt);

}  // namespace kvkeep::bench
