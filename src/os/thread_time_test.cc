#include "os/thread_time.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "os/clock.h"

namespace kvkeep::os {
namespace {

constexpr std::int64_t kWorkNs = 20'000'000;

void work() {
  const std::int64_t begin_ns = thread_cpu_ns();
  while (thread_cpu_ns() - begin_ns < kWorkNs) {}
}

TEST(ThreadTime, CountsWorkOfThisThreadAlone) {
  const std::int64_t begin_ns = thread_cpu_ns();
  std::thread(work).join();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_LT(thread_cpu_ns() - begin_ns, kWorkNs / 2) << "neither another thread's work nor sleep";
  const std::int64_t wall_ns = real_clock().monotonic_ns();
  work();
  EXPECT_GE(thread_cpu_ns() - begin_ns, kWorkNs);
  EXPECT_GE(real_clock().monotonic_ns() - wall_ns, kWorkNs);
}

}  // namespace
}  // namespace kvkeep::os
