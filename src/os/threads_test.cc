#include "os/threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "os/clock.h"

namespace kvkeep::os {
namespace {

using std::chrono::milliseconds;

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

TEST(Ticker, CallsAgainAndAgainUntilItEnds) {
  std::atomic<int> calls = 0;
  auto ticker = make_ticker(milliseconds(1), [&] { ++calls; });
  while (calls < 3) pause(milliseconds(1));
  ticker.reset();
  const int after = calls;
  pause(milliseconds(5));
  EXPECT_EQ(calls, after);
}

TEST(Ticker, EndsWithoutWaitingForThePeriod) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 500; ++i) {  // a stop may meet the thread anywhere
    make_ticker(std::chrono::hours(1), [] { ADD_FAILURE() << "an hour has not passed"; }).reset();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::minutes(1));
}

constexpr std::int64_t kWorkNs = 20'000'000;

void work() {
  const std::int64_t begin_ns = thread_cpu_ns();
  while (thread_cpu_ns() - begin_ns < kWorkNs) {}
}

TEST(ThreadTime, CountsOnlyWorkOfThisThread) {
  const std::int64_t begin_ns = thread_cpu_ns();
  std::thread(work).join();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_LT(thread_cpu_ns() - begin_ns, kWorkNs / 2) << "neither another thread's work nor sleep";
  const std::int64_t wall_ns = real_clock().monotonic_ns();
  work();
  EXPECT_GE(thread_cpu_ns() - begin_ns, kWorkNs);
  EXPECT_GE(real_clock().monotonic_ns() - wall_ns, kWorkNs);
}

TEST(PlaceThisThread, MovesOnlyThisThread) {
  const auto all = allowed_processors();
  ASSERT_FALSE(all.empty());
  std::thread([&] {
    ASSERT_TRUE(place_this_thread({all.back()}, 0));
    EXPECT_EQ(allowed_processors(), std::vector<std::uint32_t>{all.back()});
    EXPECT_TRUE(place_this_thread({}, 0)) << "nothing is asked for";
    EXPECT_EQ(allowed_processors(), std::vector<std::uint32_t>{all.back()});
  }).join();
  EXPECT_EQ(allowed_processors(), all);
}

TEST(PlaceThisThread, AnybodyMayHaveALowPriority) {
  EXPECT_TRUE(check_priority(-1));
  EXPECT_TRUE(check_priority(0));
  const Status realtime = check_priority(3);
  EXPECT_TRUE(realtime || realtime.error().message.find("does not permit priority 3") != std::string::npos);
}

TEST(SideBySide, TasksRunAtOnceAndTheLastOneHere) {
  std::promise<void> first;
  std::thread::id last;
  run_side_by_side({[&] { first.get_future().wait(); },
                    [&] {
                      last = std::this_thread::get_id();
                      first.set_value();
                    }});
  EXPECT_EQ(last, std::this_thread::get_id());
  run_side_by_side({});
}

}  // namespace
}  // namespace kvkeep::os
