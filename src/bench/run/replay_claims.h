#pragma once

// What replies say was computed for them, against what the engine was given.

#include <cstdint>
#include <string>
#include <vector>

#include "bench/run/replay_client.h"

namespace kvkeep::bench {

// Why the two differ, in one line; empty: they do not. `decoded` is what libllama was given for all the exchanges,
// which may have overlapped: prompts, and of each reply all ids but the last. A request that broke off may have cost
// anything, one that was refused (400 to 499) nothing.
std::string difference_of_claims(const std::vector<Exchange>& exchanges, std::uint64_t decoded);

}  // namespace kvkeep::bench
