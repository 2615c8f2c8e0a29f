#include "server/run/waits.h"

#include <gtest/gtest.h>

#include <set>

namespace kvkeep::server {
namespace {

constexpr std::int64_t kMs = 1'000'000;

TEST(Waits, EachTimeBelongsToOneCause) {
  Waits waits;
  EXPECT_FALSE(waits.now());
  waits.begin(WaitCause::kPlace, 10 * kMs);
  waits.begin(WaitCause::kPrefix, 14 * kMs);
  EXPECT_EQ(waits.now(), WaitCause::kPrefix);
  EXPECT_EQ(waits.ended()[WaitCause::kPlace], 4);
  EXPECT_EQ(waits.ended()[WaitCause::kPrefix], 0) << "it goes on";
  waits.begin(WaitCause::kPlace, 20 * kMs);
  waits.end(21 * kMs);
  EXPECT_FALSE(waits.now());
  EXPECT_EQ(waits.ended()[WaitCause::kPlace], 5);
  EXPECT_EQ(waits.ended()[WaitCause::kPrefix], 6);
}

TEST(Waits, BeginningAgainGoesOn) {
  Waits waits;
  waits.begin(WaitCause::kCells, 10 * kMs);
  waits.begin(WaitCause::kCells, 15 * kMs);
  waits.end(18 * kMs);
  EXPECT_EQ(waits.ended()[WaitCause::kCells], 8);
}

TEST(Waits, EndingTwiceCountsOnce) {
  Waits waits;
  waits.end(5 * kMs);
  waits.begin(WaitCause::kDisk, 5 * kMs);
  waits.end(7 * kMs);
  waits.end(9 * kMs);
  EXPECT_EQ(waits.ended()[WaitCause::kDisk], 2);
}

TEST(WaitTimes, AreAddedByCause) {
  WaitTimes sum;
  sum.add(WaitCause::kTurn, 1);
  WaitTimes other;
  other.add(WaitCause::kTurn, 2);
  other.add(WaitCause::kDisk, 4);
  sum.add(other);
  EXPECT_EQ(sum[WaitCause::kTurn], 3);
  EXPECT_EQ(sum[WaitCause::kDisk], 4);
  EXPECT_EQ(sum[WaitCause::kPlace], 0);
}

TEST(WaitCauses, HaveNamesOfTheirOwn) {
  std::set<std::string_view> names;
  for (const WaitCause cause : kWaitCauses) names.insert(to_string(cause));
  EXPECT_EQ(names.size(), kWaitCauses.size());
}

}  // namespace
}  // namespace kvkeep::server
