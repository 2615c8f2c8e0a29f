#pragma once

// Time; all code outside this room gets a clock passed in.

#include <cstdint>

namespace kvkeep::os {

// Thread safe.
class Clock {
 public:
  virtual ~Clock() = default;
  // Never goes back; for durations. Nanoseconds since an arbitrary start.
  virtual std::int64_t monotonic_ns() = 0;
  // Wall clock; for file times and `created` fields. Nanoseconds since the epoch.
  virtual std::int64_t wall_ns() = 0;
};

// The machine's clock; the process has one.
Clock& real_clock();

// Returns seconds since the epoch shifted to the local time zone, for templates that print a date.
std::int64_t local_time_s(std::int64_t wall_ns);

inline double elapsed_ms(std::int64_t from_ns, std::int64_t to_ns) {
  return static_cast<double>(to_ns - from_ns) / 1e6;
}

}  // namespace kvkeep::os
