// The threads of a shared tier: which kinds of work wait for which.

#include <gtest/gtest.h>

#include <atomic>

#include "os/threads.h"
#include "share/shared_store.h"

namespace kvkeep::share {
namespace {

constexpr int kLimitMs = 20'000;

// Returns true if so many tasks of an executor are under way at once.
bool run_side_by_side(os::Executor& executor, int count) {
  std::atomic<int> inside = 0;
  std::atomic<bool> all = true;
  for (int i = 0; i < count; ++i) {
    executor.post([&] {
      ++inside;
      if (!os::wait_until(kLimitMs, [&] { return inside == count; })) all = false;
    });
  }
  executor.drain();
  return all;
}

TEST(ShareThreads, OfSeveralRequestsNoneWaitsForTheOthers) {
  const ShareThreads threads(2);
  EXPECT_TRUE(run_side_by_side(*threads.searcher, 4));
  EXPECT_TRUE(run_side_by_side(*threads.reader, 3));
  EXPECT_EQ(threads.helpers.size(), 2U);
}

TEST(ShareThreads, NoKindOfWorkWaitsForAnother) {
  const ShareThreads threads(1);
  std::atomic<int> under_way = 0;
  std::atomic<bool> all = true;
  for (os::Executor* executor : {threads.worker.get(), threads.prober.get(), threads.reader.get(),
                                 threads.searcher.get(), threads.helpers.front().get()}) {
    executor->post([&] {
      ++under_way;
      if (!os::wait_until(kLimitMs, [&] { return under_way == 5; })) all = false;
    });
  }
  for (os::Executor* executor : {threads.worker.get(), threads.prober.get(), threads.reader.get(),
                                 threads.searcher.get(), threads.helpers.front().get()}) {
    executor->drain();
  }
  EXPECT_TRUE(all);
}

}  // namespace
}  // namespace kvkeep::share
