#include "os/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace kvkeep::os {
namespace {

TEST(ThreadPool, RunsWhatWasPostedBeforeItGoes) {
  std::atomic<int> ran{0};
  {
    const auto pool = make_thread_pool(3, "pool");
    for (int i = 0; i < 1'000; ++i) pool->post([&] { ++ran; });
  }
  EXPECT_EQ(ran, 1'000);
}

TEST(ThreadPool, TasksRunSideBySide) {
  std::atomic<int> inside{0};
  const auto pool = make_thread_pool(2, "pool");
  for (int i = 0; i < 2; ++i) {
    pool->post([&] {
      ++inside;
      while (inside < 2) std::this_thread::yield();  // each waits for the other
    });
  }
  while (inside < 2) std::this_thread::yield();
}

}  // namespace
}  // namespace kvkeep::os
