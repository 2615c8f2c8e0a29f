#pragma once

// What kvkeep costs where its cache finds nothing: time per token beside a peer's, one request at a time.
//
// Both servers run at once and are asked in turn, who goes first changes with each pair; only one works at a time. CPU
// time does not count what other programs do, but they still disturb it; wall time is what a user waits, of everything
// the machine does. Both are medians over pairs of neighbouring runs. All prompts differ from their first words on:
// nothing can be reused. What kvkeep writes after a reply is part of its price.
//
// Measured with one thread, where figures are steady, and with the threads that a server takes by itself, which users
// have: threads that wait for each other are the difference. How often they sleep is counted, too: voluntary context
// switches per decoded token.

#include <functional>
#include <vector>

#include "base/result.h"
#include "bench/report/figures.h"
#include "bench/run/interrupt.h"
#include "bench/run/server_process.h"

namespace kvkeep::bench {

struct ParityOptions {
  std::size_t pairs = 15;  // at least 1
  int settle_ms = 400;     // after a reply, until the clock is read
};

// How many threads both servers compute with.
struct ParitySetting {
  const char* name;
  std::vector<std::string> flags;
};
std::vector<ParitySetting> parity_settings();

// Flags that both servers are started with, besides -m and those of the setting.
std::vector<std::string> parity_flags();

// Both are started. For prefill, decode, and decode behind a long prompt: the ratios of CPU and wall time with their
// goals, and each server's microseconds per token; of decoding also each server's context switches per token, with a
// goal for ours. `setting` goes into the names. kUnsupported: a reply is not the one that was asked for (another
// length, or cached).
Result<std::vector<PartFigures>> measure_parity(ServerProcess& ours, ServerProcess& theirs, const char* setting,
                                                const ParityOptions& options,
                                                const std::function<void(std::size_t done, std::size_t of)>& progress,
                                                Interrupt& interrupt);

}  // namespace kvkeep::bench
