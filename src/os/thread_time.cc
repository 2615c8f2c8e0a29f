#include "os/thread_time.h"

#include <ctime>

namespace kvkeep::os {

std::int64_t thread_cpu_ns() {
  std::timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace kvkeep::os
