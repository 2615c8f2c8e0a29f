#include "os/ticker.h"

#include <gtest/gtest.h>

#include <atomic>

#include "os/pause.h"

namespace kvkeep::os {
namespace {

using std::chrono::milliseconds;

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

}  // namespace
}  // namespace kvkeep::os
