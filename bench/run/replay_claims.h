#pragma once

// The tokens that replies claim were computed, compared with those that the engine was given.

#include <cstdint>
#include <string>
#include <vector>

#include "bench/run/server_client.h"

namespace kvkeep::bench {

struct ClaimsCheck {
  enum class Verdict : std::uint8_t {
    kHold,     // the sum of the claims is the count
    kUnknown,  // some replies make no claim, or some decoded ids belong to none
    kDiffer,   // the claims contradict the count
  };
  Verdict verdict = Verdict::kUnknown;
  std::string problem;  // one line; empty: none
};

// `decoded` is the number of ids that libllama was given for all exchanges, which may have overlapped: prompts, and all
// ids but the last of each reply. A request that broke off may have cost anything, a refused one (400 to 499) nothing.
ClaimsCheck check_claims(const std::vector<Exchange>& exchanges, std::uint64_t decoded);

}  // namespace kvkeep::bench
