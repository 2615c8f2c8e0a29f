#pragma once

// How much a cache wrote for what was new: enough to know it again, and no more.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/figures.h"
#include "bench/run/server_process.h"

namespace kvkeep::bench {

struct NewRows {
  std::string directory;     // of the disk tier
  std::string title;         // of the workload
  std::uint64_t tokens = 0;  // different prefixes that were decoded
  // `tokens` is exact. Else it comes from texts that were tokenized again, which may make a few more ids of them.
  bool is_exact = false;
  // bytes_passed() before the first request.
  std::optional<std::uint64_t> bytes_before;
  int limit_ms = 10'000;  // for a slow disk: within it, what has to be written is
};

// A server writes no prefix shorter than this (ids), so that workloads with shorter prompts say nothing of what it
// owes.
inline constexpr std::uint64_t kShortestWritten = 32;

// Bytes that the server gave to write() so far, as the kernel counts them; none: it does not say.
std::optional<std::uint64_t> bytes_passed(const ServerProcess& server);

// Payload bytes of all segment files, and beside them bytes given to write() (if the kernel says them), each / bytes of
// the rows of new tokens. Both have a least: a cache that writes nothing is no cheap one. Above, the kernel's count is
// bounded where there are many rows. Waits until the writer must
// be done. What a token's rows take is in the server's log. kUnsupported: it is not there. kDamaged, kIo: a file cannot
// be read, or is shorter than its header says.
Result<std::vector<PartFigures>> measure_written(ServerProcess& server, const NewRows& rows);

}  // namespace kvkeep::bench
