#pragma once

// A time to live: what nobody used for so long leaves every tier, whether there is room or not. Pure.

#include <cstdint>

#include "policy/evict.h"

namespace kvkeep::policy {

struct Lifetime {
  std::int64_t last_used_ns = 0;
  std::int64_t kept_until_ns = 0;  // somebody asked for it to stay so long; 0: nobody
};

// `time_to_live_ns` 0: for ever. A last use that is yet to come is of a clock that went back: it is used now.
constexpr bool expired(const Lifetime& known, std::int64_t now_ns, std::int64_t time_to_live_ns) {
  if (time_to_live_ns <= 0 || now_ns - known.last_used_ns < time_to_live_ns) return false;
  const std::int64_t kept_ns = known.kept_until_ns - now_ns;
  return kept_ns <= 0 || kept_ns > kLongestKeepNs;
}

}  // namespace kvkeep::policy
