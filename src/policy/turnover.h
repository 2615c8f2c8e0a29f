#pragma once

// How fast a tier is filled anew, and the half-life that follows from it.

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/types.h"
#include "policy/score.h"

namespace kvkeep::policy {

// Pure. Not thread safe.
class Turnover {
 public:
  // So much left a tier of `limit`. Returns another half-life, if it is to change: looked at when a quarter of the tier
  // left, and only if it is twice as long or half as long as before, for a change costs a new order of everything.
  std::optional<std::int64_t> note_left(ByteCount bytes, ByteCount limit, std::int64_t now_ns) {
    if (begin_ns_ == 0) begin_ns_ = now_ns;
    left_ += bytes;
    if (left_ == ByteCount{} || left_.value() < limit.value() / 4) return std::nullopt;
    const double share = static_cast<double>(left_.value()) / static_cast<double>(limit.value() + 1);
    // A clock may have been set back.
    const auto passed_ns = static_cast<double>(std::max<std::int64_t>(0, now_ns - begin_ns_));
    begin_ns_ = now_ns;
    left_ = {};
    const std::int64_t wanted_ns =
        half_life_for(static_cast<std::int64_t>(std::min(passed_ns / share, kLongestTurnoverNs)));
    if (wanted_ns > half_life_ns_ / 2 && wanted_ns < 2 * half_life_ns_) return std::nullopt;
    half_life_ns_ = wanted_ns;
    return wanted_ns;
  }
  std::int64_t half_life_ns() const { return half_life_ns_; }

 private:
  static constexpr double kLongestTurnoverNs = 1e18;  // thirty years, and it fits

  std::int64_t begin_ns_ = 0;
  ByteCount left_;
  std::int64_t half_life_ns_ = kLongestHalfLifeNs;
};

}  // namespace kvkeep::policy
