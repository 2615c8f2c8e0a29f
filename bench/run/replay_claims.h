#pragma once

// What replies say was computed for them, against what the engine was given.

#include <cstdint>
#include <string>
#include <vector>

#include "bench/run/server_client.h"

namespace kvkeep::bench {

struct ClaimsCheck {
  enum class Verdict : std::uint8_t {
    kHold,     // the sum of the claims is what was counted
    kUnknown,  // not all is claimed, or not all that was decoded can be
    kDiffer,   // they contradict what was counted
  };
  Verdict verdict = Verdict::kUnknown;
  std::string problem;  // one line; empty: none
};

// `decoded` is what libllama was given for all the exchanges, which may have overlapped: prompts, and of each reply all
// ids but the last. A request that broke off may have cost anything, one that was refused (400 to 499) nothing.
ClaimsCheck check_claims(const std::vector<Exchange>& exchanges, std::uint64_t decoded);

}  // namespace kvkeep::bench
