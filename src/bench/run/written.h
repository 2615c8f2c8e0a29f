#pragma once

// How much a cache wrote for what was new.

#include <string>

#include "base/result.h"
#include "bench/figures.h"
#include "bench/run/server_process.h"
#include "bench/workload.h"

namespace kvkeep::bench {

// Payload bytes of all segment files below `directory` / bytes of the rows of `new_tokens` tokens; waits until the
// writer must be done. What a token's rows take is in the server's log. kUnsupported: it is not there. kDamaged, kIo:
// a file cannot be read.
Result<PartFigures> measure_written(ServerProcess& server, const std::string& directory, std::uint64_t new_tokens,
                                    const Workload& workload);

}  // namespace kvkeep::bench
