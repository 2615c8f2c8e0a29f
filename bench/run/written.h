#pragma once

// How much a cache wrote for new tokens: enough to know them again, and no more.

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
  // `tokens` is exact. If false, it comes from texts that were tokenized again, which may give a few more ids.
  bool is_exact = false;
  // bytes_passed() before the first request.
  std::optional<std::uint64_t> bytes_before;
  int limit_ms = 10'000;  // for a slow disk: within it all necessary writes are done
  bool has_goals = true;  // false: flags may forbid writing, so that figures have no goals
};

// A server writes no prefix shorter than this (ids), so that workloads with shorter prompts do not show what it must
// write.
inline constexpr std::uint64_t kShortestWritten = 32;

// Returns the bytes that the server gave to write() so far, as the kernel counts them; none if it does not report them.
std::optional<std::uint64_t> bytes_passed(const ServerProcess& server);

// From the segment files: payload bytes of rows and of window rows, each / bytes of those rows of new tokens; points
// and their bytes per request, without a goal; and bytes given to write() (if the kernel reports them) / all payload
// bytes. A kind that the model's memory does not have has no figure. Rows have a lower bound, too: a cache that writes
// nothing is not a cheap one. The size of a token's rows is in the server's log. Waits until the writer must be done.
// kUnsupported if the log does not have it; kDamaged, kIo if a file cannot be read, or is shorter than its header says.
Result<std::vector<PartFigures>> measure_written(ServerProcess& server, const NewRows& rows);

}  // namespace kvkeep::bench
