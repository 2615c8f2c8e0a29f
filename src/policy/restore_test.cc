#include "policy/restore.h"

#include <gtest/gtest.h>

namespace kvkeep::policy {
namespace {

constexpr Rates kKnown{.prefill_tokens_per_s = 100, .ram_restore_bytes_per_s = 1e6, .disk_read_bytes_per_s = 1e5};

RestoreCost cost(std::uint64_t tokens, std::uint64_t ram_bytes, std::uint64_t disk_bytes) {
  return {tokens, ByteCount{ram_bytes}, ByteCount{disk_bytes}};
}

TEST(WorthRestoring, NothingIsNeverWorthIt) {
  EXPECT_FALSE(worth_restoring(RestoreMode::kAlways, kKnown, cost(0, 0, 0)));
  EXPECT_FALSE(worth_restoring(RestoreMode::kAuto, kKnown, cost(0, 0, 0)));
}

TEST(WorthRestoring, AlwaysMeansAlways) {
  EXPECT_TRUE(worth_restoring(RestoreMode::kAlways, kKnown, cost(1, 1'000'000'000, 1'000'000'000)));
}

TEST(WorthRestoring, AutoComparesSeconds) {
  // 10 tokens prefill in 0.1 s: 100 kB of copying, or 10 kB of reading.
  EXPECT_TRUE(worth_restoring(RestoreMode::kAuto, kKnown, cost(10, 100'000, 0)));
  EXPECT_FALSE(worth_restoring(RestoreMode::kAuto, kKnown, cost(10, 100'001, 0)));
  EXPECT_TRUE(worth_restoring(RestoreMode::kAuto, kKnown, cost(10, 50'000, 5'000)));
  EXPECT_FALSE(worth_restoring(RestoreMode::kAuto, kKnown, cost(10, 50'000, 5'001)));
}

TEST(WorthRestoring, WhatIsNotKnownDoesNotSpeakAgainstIt) {
  Rates rates = kKnown;
  rates.prefill_tokens_per_s = 0;
  EXPECT_TRUE(worth_restoring(RestoreMode::kAuto, rates, cost(1, 1'000'000'000, 0)));
  rates = kKnown;
  rates.ram_restore_bytes_per_s = 0;
  EXPECT_TRUE(worth_restoring(RestoreMode::kAuto, rates, cost(1, 1'000'000'000, 0)));
  EXPECT_FALSE(worth_restoring(RestoreMode::kAuto, rates, cost(1, 0, 1'000'000)));
}

TEST(UpdateRate, TheFirstSampleCountsWholeLaterOnesAQuarter) {
  EXPECT_DOUBLE_EQ(update_rate(0, 50, 0.5), 100);
  EXPECT_DOUBLE_EQ(update_rate(100, 200, 1), 125);
  EXPECT_DOUBLE_EQ(update_rate(100, 0, 1), 100);
  EXPECT_DOUBLE_EQ(update_rate(100, 1, 0), 100);
}

}  // namespace
}  // namespace kvkeep::policy
