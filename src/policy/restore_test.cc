#include "policy/restore.h"

#include <gtest/gtest.h>

#include <vector>

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

TEST(WorthRestoring, UnknownRatesDoNotSpeakAgainstIt) {
  Rates rates = kKnown;
  rates.prefill_tokens_per_s = 0;
  EXPECT_TRUE(worth_restoring(RestoreMode::kAuto, rates, cost(1, 1'000'000'000, 0)));
  rates = kKnown;
  rates.ram_restore_bytes_per_s = 0;
  EXPECT_TRUE(worth_restoring(RestoreMode::kAuto, rates, cost(1, 1'000'000'000, 0)));
  EXPECT_FALSE(worth_restoring(RestoreMode::kAuto, rates, cost(1, 0, 1'000'000)));
}

TEST(WorthRestoring, TheSharedTierTakesAWaitForEachReadAndTheTimeOfItsBytes) {
  const Rates rates{
      .prefill_tokens_per_s = 100, .shared_read_bytes_per_s = 1e5, .shared_wait_s = 0.01};  // 10 tokens in 0.1 s
  RestoreCost shared = cost(10, 0, 0);
  shared.add_read(CacheTier::kShared, ByteCount{9'000});
  EXPECT_TRUE(worth_restoring(RestoreMode::kAuto, rates, shared));
  shared.add_read(CacheTier::kRam, ByteCount{1 << 30});
  EXPECT_TRUE(worth_restoring(RestoreMode::kAuto, rates, shared)) << "RAM is not read";
  shared.add_read(CacheTier::kShared, ByteCount{});
  EXPECT_FALSE(worth_restoring(RestoreMode::kAuto, rates, shared)) << "another wait";
  EXPECT_TRUE(worth_restoring(RestoreMode::kAlways, rates, shared));
}

TEST(UpdateRate, TheFirstSampleCountsWholeLaterOnesAQuarter) {
  EXPECT_DOUBLE_EQ(update_rate(0, 50, 0.5, 32), 100);
  EXPECT_DOUBLE_EQ(update_rate(100, 200, 1, 32), 125);
  EXPECT_DOUBLE_EQ(update_rate(100, 0, 1, 0), 100);
  EXPECT_DOUBLE_EQ(update_rate(100, 50, 0, 32), 100);
}

TEST(UpdateRate, SmallSamplesSayNothing) {
  EXPECT_DOUBLE_EQ(update_rate(100, 31, 1, 32), 100);
  EXPECT_DOUBLE_EQ(update_rate(0, 31, 1, 32), 0);
  EXPECT_DOUBLE_EQ(update_rate(100, 32, 1, 32), 83);
}

// Number of refusals before each trial.
std::vector<int> refusals_until_trials(RestoreTrials& trials, int count) {
  std::vector<int> waits;
  for (int i = 0; i < count; ++i) {
    int refused = 0;
    for (; !trials.due(); ++refused) trials.note_refused();
    trials.note_restored();
    waits.push_back(refused);
  }
  return waits;
}

TEST(RestoreTrials, ComeLessAndLessOftenButNeverStop) {
  RestoreTrials trials;
  EXPECT_FALSE(trials.due());
  EXPECT_EQ(refusals_until_trials(trials, 7), (std::vector{4, 8, 16, 32, 64, 64, 64}));
}

TEST(RestoreTrials, BeginAnewWhenTheRatesSpokeForRestoringAgain) {
  RestoreTrials trials;
  (void)refusals_until_trials(trials, 3);
  trials.note_refused();
  trials.note_restored();
  EXPECT_EQ(refusals_until_trials(trials, 2), (std::vector{4, 8}));
}

TEST(RateMeter, MeasuresEachRateApart) {
  RateMeter meter(1000);
  meter.note_prefilled(100, 50);
  meter.note_restored(4000, 2);
  meter.note_read(ByteCount{6000}, 3);
  EXPECT_DOUBLE_EQ(meter.rates().prefill_tokens_per_s, 2000);
  EXPECT_DOUBLE_EQ(meter.rates().ram_restore_bytes_per_s, 2e6);
  EXPECT_DOUBLE_EQ(meter.rates().disk_read_bytes_per_s, 2e6);
}

TEST(RateMeter, TellsTheWaitOfTheSharedTierFromItsRate) {
  RateMeter meter(1000);
  meter.note_shared_answer(2);
  EXPECT_DOUBLE_EQ(meter.rates().shared_wait_s, 0.002);
  meter.note_shared_read(ByteCount{6000}, 2, 10);
  EXPECT_DOUBLE_EQ(meter.rates().shared_read_bytes_per_s, 1e6) << "4 of the 10 ms were waits";
  meter.note_shared_answer(6);
  EXPECT_DOUBLE_EQ(meter.rates().shared_wait_s, 0.003);
}

TEST(RateMeter, AReadIsNeverAllWait) {
  RateMeter meter(1000);
  meter.note_shared_answer(100);
  meter.note_shared_read(ByteCount{6000}, 3, 12);
  EXPECT_DOUBLE_EQ(meter.rates().shared_read_bytes_per_s, 1e6);
}

TEST(RateMeter, SmallSamplesChangeNothing) {
  RateMeter meter(1000);
  meter.note_prefilled(kLeastMeasuredTokens - 1, 1);
  meter.note_restored(999, 1);
  meter.note_read(ByteCount{999}, 1);
  EXPECT_EQ(meter.rates().prefill_tokens_per_s, 0);
  EXPECT_EQ(meter.rates().ram_restore_bytes_per_s, 0);
  EXPECT_EQ(meter.rates().disk_read_bytes_per_s, 0);
  RateMeter rowless(0);
  rowless.note_restored(1000, 1);
  EXPECT_EQ(rowless.rates().ram_restore_bytes_per_s, 0) << "a point of that size says little";
}

}  // namespace
}  // namespace kvkeep::policy
