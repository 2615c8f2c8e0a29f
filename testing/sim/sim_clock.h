#pragma once

// Time that passes only when a test lets it, plus a nanosecond per reading, so that no two readings agree.

#include <atomic>

#include "os/clock.h"

namespace kvkeep::sim {

// Thread safe.
class SimClock final : public os::Clock {
 public:
  std::int64_t monotonic_ns() override { return ++now_ns_; }
  std::int64_t wall_ns() override { return kEpochNs + ++now_ns_; }
  void advance_ns(std::int64_t ns) { now_ns_ += ns; }
  void advance_ms(std::int64_t ms) { advance_ns(ms * 1'000'000); }

 private:
  static constexpr std::int64_t kEpochNs = 1'700'000'000'000'000'000;
  std::atomic<std::int64_t> now_ns_ = 0;
};

}  // namespace kvkeep::sim
