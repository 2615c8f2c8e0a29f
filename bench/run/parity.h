#pragma once

// The cost of kvkeep when its cache finds nothing: time per token compared with a peer's, one request at a time.
//
// Both servers run at once and are asked in turn, a different one first in each pair; only one works at a time. CPU
// time does not include other programs, but they still disturb it; wall time is what a user waits, and includes all
// that the machine does. Both are medians over pairs of neighbouring runs. All prompts differ from their first words
// on: nothing can be reused. Work that kvkeep does after a reply is part of its cost.
//
// Each pair starts both servers anew: which memory a process happens to get changes its speed by up to a tenth for as
// long as it runs, so that pairs of the same two processes measure that instead.
//
// Measured with one thread, where figures are steady, and with the default number of threads, which users have: the
// difference is threads that wait for each other. How often they sleep is counted, too: voluntary context switches per
// decoded token.

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

// The flags of both servers, without -m and those of the setting.
std::vector<std::string> parity_flags();

// Starts and stops both servers. Returns, for prefill, decode, and decode after a long prompt: the ratios of CPU and
// wall time with their goals, and each server's microseconds per token; for decode also each server's context switches
// per token, with a goal for `ours`. `setting` goes into the names. kUnsupported if a reply is not the one that was
// asked for (another length, or cached); errors as of ServerProcess::start() and stop().
Result<std::vector<PartFigures>> measure_parity(ServerProcess& ours, ServerProcess& theirs, const char* setting,
                                                const ParityOptions& options,
                                                const std::function<void(std::size_t done, std::size_t of)>& progress,
                                                Interrupt& interrupt);

}  // namespace kvkeep::bench
