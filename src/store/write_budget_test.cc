#include "store/write_budget.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "base/test_seed.h"
#include "testing/sim/sim_clock.h"
#include "testing/sim/sim_file_system.h"

namespace kvkeep::store {
namespace {

constexpr std::int64_t kMinuteNs = 60'000'000'000;
constexpr std::int64_t kDayNs = 24 * 60 * kMinuteNs;
constexpr std::uint64_t kPerDay = 80'000'000;
constexpr std::uint64_t kMost = kPerDay / 8;
constexpr std::uint64_t kFile = 300'000;
const std::string kPath = "/cache/writes";

class WriteBudgetTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(files.make_directories("/cache").ok()); }
  void start() {
    budget = std::make_unique<WriteBudget>(kPath, ByteCount{kPerDay}, files, clock);
    budget->set_saves(true);
    budget->open();
  }
  std::uint64_t left() { return budget->allowance().left.value(); }
  // Writes as much as it may; how much that is.
  std::uint64_t write_all() {
    std::uint64_t written = 0;
    for (; left() > 0; written += kFile) budget->wrote(ByteCount{kFile});
    return written;
  }
  void damage(std::size_t byte) {
    std::vector<std::byte> bytes = *files.contents(kPath);
    bytes[byte] ^= std::byte{1};
    ASSERT_TRUE(files.remove(kPath).ok());
    const auto file = files.create(kPath);
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE((*file)->append(bytes).ok());
  }

  sim::SimFileSystem files{1};
  sim::SimClock clock;
  std::unique_ptr<WriteBudget> budget;
};

// Whatever is asked and however often the process is killed or stopped, in a simulated month.
TEST_F(WriteBudgetTest, No24HoursSeeMoreThanADaysBytesAndAFile) {
  std::mt19937_64 random(test_seed());
  std::deque<std::pair<std::int64_t, std::uint64_t>> last_day;
  std::uint64_t in_a_day = 0;
  std::uint64_t total = 0;
  std::uint64_t kills = 0;
  start();
  for (std::int64_t now_ns = 0; now_ns < 30 * kDayNs;) {
    const std::int64_t step_ns = random() % 50 == 0 ? kDayNs / 3 : static_cast<std::int64_t>(random() % kMinuteNs);
    clock.advance_ns(step_ns);
    now_ns += step_ns;
    if (random() % 100 == 0) {
      if (random() % 2 == 0) budget->close();
      ++kills;
      start();
    }
    for (; !last_day.empty() && last_day.front().first <= now_ns - kDayNs; last_day.pop_front())
      in_a_day -= last_day.front().second;
    for (int files_at_once = 0; files_at_once < 40 && left() > 0; ++files_at_once) {
      const std::uint64_t size = 1 + random() % kFile;
      budget->wrote(ByteCount{size});
      last_day.emplace_back(now_ns, size);
      in_a_day += size;
      total += size;
      ASSERT_LE(in_a_day, kPerDay + kFile) << now_ns;
    }
  }
  EXPECT_GT(kills, 10U);
  EXPECT_GT(total, 10 * kPerDay) << "it is used";
}

TEST_F(WriteBudgetTest, ADaysBytesAreThereForADay) {
  start();
  std::uint64_t written = write_all();
  EXPECT_GE(written, kMost);
  for (int hour = 0; hour < 24; ++hour) {
    clock.advance_ns(kDayNs / 24);
    written += write_all();
  }
  EXPECT_GT(written, kPerDay - kFile);
  EXPECT_LE(written, kPerDay + kFile);
  clock.advance_ns(100 * kDayNs);
  EXPECT_EQ(left(), kMost) << "more does not gather";
}

TEST_F(WriteBudgetTest, AFileLargerThanAllThatMayGatherIsPaidForLater) {
  start();
  budget->wrote(ByteCount{kPerDay});
  clock.advance_ns(kDayNs / 2);
  EXPECT_EQ(left(), 0U);
  clock.advance_ns(kDayNs / 2);
  EXPECT_EQ(left(), 0U);
  clock.advance_ns(kDayNs / 8);
  EXPECT_GT(left(), 0U);
}

TEST_F(WriteBudgetTest, ARestartKeepsWhatIsLeft) {
  start();
  write_all();
  budget->close();
  start();
  EXPECT_EQ(left(), 0U);
  clock.advance_ns(kDayNs / 24);
  const std::uint64_t before = left();
  EXPECT_GT(before, 0U);
  start();
  EXPECT_NEAR(static_cast<double>(left()), static_cast<double>(before), 10);
}

TEST_F(WriteBudgetTest, AProcessThatDiesLeavesNoMoreThanThereIs) {
  start();
  for (int i = 0; i < 20; ++i) {
    const std::uint64_t before = left();
    start();
    ASSERT_LE(left(), before + 100) << "so little comes back while nothing waits";
    ASSERT_GE(left() + kMost / 8, before);
    for (int file = 0; file <= i % 3; ++file) budget->wrote(ByteCount{kFile});
  }
}

TEST_F(WriteBudgetTest, WhatCannotBeBelievedMeansThatNothingIsLeft) {
  start();
  budget->wrote(ByteCount{kFile});
  budget->close();
  const std::size_t size = files.contents(kPath)->size();
  for (std::size_t byte = 0; byte < size; ++byte) {
    damage(byte);
    start();
    EXPECT_EQ(left(), 0U) << byte;
    EXPECT_TRUE(budget->allowance().disbelieved) << "somebody can say so";
    damage(byte);
  }
  start();
  EXPECT_GT(left(), 0U);
  EXPECT_FALSE(budget->allowance().disbelieved);
}

TEST_F(WriteBudgetTest, AClockThatGoesBackGivesNothing) {
  start();
  write_all();
  budget->close();
  clock.advance_ns(-kDayNs);
  EXPECT_EQ(left(), 0U);
  start();
  EXPECT_EQ(left(), 0U);
  clock.advance_ns(kDayNs / 24);
  EXPECT_GT(left(), 0U);
}

TEST_F(WriteBudgetTest, NoFaultOfItsFileMatters) {
  for (std::uint64_t at = 1; at < 12; ++at) {
    for (const sim::FaultKind kind : {sim::FaultKind::kFailOnce, sim::FaultKind::kFailForever}) {
      files.set_plan({kind, at});
      start();
      const std::uint64_t written = write_all();
      EXPECT_LE(written, kMost + kFile);
      files.heal();
      budget->close();
      EXPECT_LE(files.paths().size(), 1U) << "nothing unfinished is left";
      clock.advance_ns(kDayNs);
    }
  }
}

TEST_F(WriteBudgetTest, WithoutALimitTheDiskIsLeftAlone) {
  const std::uint64_t before = files.operations();
  WriteBudget none(kPath, ByteCount{}, files, clock);
  none.set_saves(true);
  none.open();
  none.wrote(ByteCount{kPerDay});
  none.close();
  EXPECT_FALSE(none.limited());
  EXPECT_EQ(files.operations(), before);
}

}  // namespace
}  // namespace kvkeep::store
