#include "os/clock.h"

#include <chrono>
#include <ctime>

namespace kvkeep::os {
namespace {

template <typename Clock>
std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

class RealClock final : public Clock {
 public:
  std::int64_t monotonic_ns() override { return now_ns<std::chrono::steady_clock>(); }
  std::int64_t wall_ns() override { return now_ns<std::chrono::system_clock>(); }
};

}  // namespace

Clock& real_clock() {
  static RealClock clock;
  return clock;
}

std::int64_t local_time_s(std::int64_t wall_ns) {
  const std::time_t seconds = wall_ns / 1'000'000'000;
  std::tm local{};
  localtime_r(&seconds, &local);
  return seconds + local.tm_gmtoff;
}

}  // namespace kvkeep::os
