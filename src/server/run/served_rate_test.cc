// The pace at which replies end, on a clock that the test sets.

#include "server/run/served_rate.h"

#include <gtest/gtest.h>

namespace kvkeep::server {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

TEST(ServedRate, IsThatOfTheLastRepliesWhileAnyAreOpen) {
  ServedRate rate;
  rate.begin(0);
  for (int i = 1; i <= 10; ++i) rate.note_served(i * kSecond / 2);
  EXPECT_EQ(rate.seconds_for(40, 5 * kSecond), 20) << "two a second";
  EXPECT_EQ(rate.seconds_for(3, 5 * kSecond), 2) << "rounded up";
  rate.pause(5 * kSecond);
  EXPECT_EQ(rate.seconds_for(40, 5'000 * kSecond), 20) << "nobody asks for a while";
  rate.begin(6'000 * kSecond);
  EXPECT_EQ(rate.seconds_for(40, 6'000 * kSecond), 20);
  EXPECT_EQ(rate.seconds_for(40, 6'005 * kSecond), 40) << "none was served for five seconds";
}

TEST(ServedRate, FollowsAChange) {
  ServedRate rate;
  rate.begin(0);
  std::int64_t now_ns = 0;
  for (int i = 0; i < 500; ++i) rate.note_served(now_ns += kSecond);
  EXPECT_EQ(rate.seconds_for(20, now_ns), 20);
  for (std::size_t i = 0; i < ServedRate::kMostCounted; ++i) rate.note_served(now_ns += kSecond / 10);
  EXPECT_EQ(rate.seconds_for(20, now_ns), 2) << "only the last ones count";
}

TEST(ServedRate, StaysWithinASecondAndAMinute) {
  ServedRate rate;
  EXPECT_EQ(rate.seconds_for(1'000, 7 * kSecond), 1) << "nothing is known yet";
  rate.begin(7 * kSecond);
  EXPECT_EQ(rate.seconds_for(0, 8 * kSecond), 1);
  EXPECT_EQ(rate.seconds_for(10, 8 * kSecond), 10) << "as if one had just been served";
  EXPECT_EQ(rate.seconds_for(4'096, 8 * kSecond), 60);
  EXPECT_EQ(rate.seconds_for(4'096, 6 * kSecond), 1) << "a clock that was read earlier";
}

}  // namespace
}  // namespace kvkeep::server
