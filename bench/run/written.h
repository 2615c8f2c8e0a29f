#pragma once

// How much a cache wrote for what was new: enough to know it again, and no more.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/report/figures.h"
#include "bench/run/server_process.h"

namespace kvkeep::bench {

struct NewRows {
  std::string directory;       // of the disk tier
  std::string title;           // of the workload
  std::uint64_t tokens = 0;    // different prefixes that were decoded
  std::uint64_t requests = 0;  // at least 1
  // `tokens` is exact. Else it comes from texts that were tokenized again, which may make a few more ids of them.
  bool is_exact = false;
  // bytes_passed() before the first request.
  std::optional<std::uint64_t> bytes_before;
  int limit_ms = 10'000;  // for a slow disk: within it, what has to be written is
  bool has_goals = true;  // false: with flags that may forbid writing, figures alone
};

// A server writes no prefix shorter than this (ids), so that workloads with shorter prompts say nothing of what it
// owes.
inline constexpr std::uint64_t kShortestWritten = 32;

// Bytes that the server gave to write() so far, as the kernel counts them; none: it does not say.
std::optional<std::uint64_t> bytes_passed(const ServerProcess& server);

// Of the segment files: payload bytes of rows and of window rows, each / bytes of those rows of new tokens; points and
// their bytes per request, without a goal; and bytes given to write() (if the kernel says them) / all payload bytes.
// A kind that the model's memory has not has no figure. Rows have a least, too: a cache that writes nothing is no cheap
// one. What a token's rows take is in the server's log. Waits until the writer must be done. kUnsupported: it is not
// in the log. kDamaged, kIo: a file cannot be read, or is shorter than its header says.
Result<std::vector<PartFigures>> measure_written(ServerProcess& server, const NewRows& rows);

}  // namespace kvkeep::bench
