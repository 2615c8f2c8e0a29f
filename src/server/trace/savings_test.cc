#include "server/trace/savings.h"

#include <gtest/gtest.h>

#include "server/run/scheduler_stats.h"
#include "store/small_files.h"
#include "testing/sim/sim_file_system.h"

namespace kvkeep::server {
namespace {

const std::string kSavingsPath = "/cache/work";

// 10 ms for each token that is prefilled.
Work some_work(std::uint64_t reused, double load_ms = 0) {
  return {.reused_tokens = reused, .load_ms = load_ms, .prefilled_tokens = 100, .prefill_ms = 1'000};
}

double estimated_s(const Work& work) { return estimate_saved_ms(work, work) / 1e3; }

TEST(Work, SavesWhatPrefillWouldHaveTakenLessTheLoading) {
  EXPECT_DOUBLE_EQ(estimated_s(some_work(5'000)), 50);
  EXPECT_DOUBLE_EQ(estimated_s(some_work(5'000, 20'000)), 30);
  EXPECT_DOUBLE_EQ(estimated_s(some_work(5'000, 60'000)), -10) << "loading took longer";
  EXPECT_EQ(estimated_s({.reused_tokens = 5'000}), 0) << "no rate is known";
  EXPECT_EQ(estimated_s({.reused_tokens = 5'000, .prefilled_tokens = 1, .prefill_ms = 100}), 0) << "nor by one token";
}

TEST(Work, OfAServerIsThatOfItsClientsRequests) {
  SchedulerStats stats;
  stats.note_start({.prompt_tokens = 100, .cached_tokens = 70, .load_ms = 4}, /*ahead=*/false);
  stats.note_start({.prompt_tokens = 100, .cached_tokens = 90, .load_ms = 8}, /*ahead=*/true);
  stats.note_prefilled({.why = MissReason::kNewTokens, .all = 30}, 300, 100);
  const Work work = work_of(stats);
  EXPECT_EQ(work.reused_tokens, 70U);
  EXPECT_EQ(work.load_ms, 4);
  EXPECT_EQ(work.prefilled_tokens, 30U);
  EXPECT_EQ(work.prefill_ms, 300);
}

TEST(Savings, AddUpOverServers) {
  sim::SimFileSystem files;
  ASSERT_TRUE(files.make_directories("/cache").ok());
  {
    Savings first({.path = kSavingsPath, .now_ns = 7}, files);
    EXPECT_DOUBLE_EQ(first.sums(some_work(5'000)).ever.saved_ms, 50'000);
    first.keep(some_work(4'000));
    first.keep(some_work(5'000));
  }
  Savings second({.path = kSavingsPath, .now_ns = 9}, files);
  EXPECT_EQ(second.since_ns(), 7);
  EXPECT_DOUBLE_EQ(second.sums({}).ever.saved_ms, 50'000);
  const Savings::Sums sums = second.sums({.reused_tokens = 1'000});
  EXPECT_DOUBLE_EQ(sums.own.saved_ms, 10'000) << "the rate of the first is known";
  EXPECT_DOUBLE_EQ(sums.ever.saved_ms, 60'000);
  second.keep({.reused_tokens = 1'000});
  EXPECT_EQ(Savings({.path = kSavingsPath, .now_ns = 11}, files).sums({}).ever.reused_tokens, 6'000U);
}

TEST(Savings, NeverShrink) {
  sim::SimFileSystem files;
  ASSERT_TRUE(files.make_directories("/cache").ok());
  Savings savings({.path = kSavingsPath, .now_ns = 7}, files);
  const auto saved_s = [&](const Work& now) {
    const Savings::Sums sums = savings.sums(now);
    EXPECT_DOUBLE_EQ(sums.own.saved_ms, sums.ever.saved_ms);
    return sums.own.saved_ms / 1e3;
  };
  Work now{.reused_tokens = 1'000};
  EXPECT_EQ(saved_s(now), 0) << "no rate is known yet";
  now.prefilled_tokens = 100;
  now.prefill_ms = 1'000;
  EXPECT_DOUBLE_EQ(saved_s(now), 10);
  now.prefilled_tokens = 1'100;  // 2 ms each on average from now on
  now.prefill_ms = 2'200;
  EXPECT_DOUBLE_EQ(saved_s(now), 10) << "was saved at the rate of its time";
  now.reused_tokens += 1'000;
  now.load_ms += 5'000;
  EXPECT_DOUBLE_EQ(saved_s(now), 10) << "3 s were lost";
  now.reused_tokens += 4'000;
  EXPECT_DOUBLE_EQ(saved_s(now), 15) << "8 s less these";
  EXPECT_DOUBLE_EQ(saved_s({.reused_tokens = 1'000}), 15) << "a thread that looked earlier and came later";
  savings.keep(now);
  EXPECT_DOUBLE_EQ(Savings({.path = kSavingsPath}, files).sums({}).ever.saved_ms, 15'000);
}

TEST(Savings, OfOlderProgramsAreEstimatedOnce) {
  sim::SimFileSystem files;
  ASSERT_TRUE(files.make_directories("/cache").ok());
  const format::WorkRecord old{.since_ns = 7, .reused_tokens = 5'000, .prefilled_tokens = 100, .prefill_us = 1'000'000};
  ASSERT_TRUE(store::RecordLog::rewrite(files, kSavingsPath, format::kWorkRecords, {format::encode_work(old)}).ok());
  Savings savings({.path = kSavingsPath}, files);
  EXPECT_DOUBLE_EQ(savings.sums({}).ever.saved_ms, 50'000);
  EXPECT_DOUBLE_EQ(savings.sums({.prefilled_tokens = 900, .prefill_ms = 900}).ever.saved_ms, 50'000);
}

TEST(Savings, NothingIsWrittenIfNothingWasDone) {
  sim::SimFileSystem files;
  ASSERT_TRUE(files.make_directories("/cache").ok());
  Savings savings({.path = kSavingsPath, .now_ns = 7}, files);
  savings.keep(some_work(5'000));
  ASSERT_TRUE(files.remove(kSavingsPath).ok());
  savings.keep(some_work(5'000));
  EXPECT_FALSE(files.contents(kSavingsPath).has_value());
  savings.keep(some_work(5'001));
  EXPECT_TRUE(files.contents(kSavingsPath).has_value());
}

TEST(Savings, ADamagedFileIsBegunAnew) {
  sim::SimFileSystem files;
  ASSERT_TRUE(files.make_directories("/cache").ok());
  for (const std::string_view text : {"no records at all, and long enough for a head", "", "KV"}) {
    const auto bytes = std::as_bytes(std::span(text));
    files.plant(kSavingsPath, {bytes.begin(), bytes.end()});
    Savings savings({.path = kSavingsPath, .now_ns = 7}, files);
    EXPECT_EQ(savings.sums({}).ever.reused_tokens, 0U);
    EXPECT_EQ(savings.since_ns(), 7);
    savings.keep(some_work(5'000));
    EXPECT_EQ(Savings({.path = kSavingsPath}, files).sums({}).ever.reused_tokens, 5'000U);
  }
}

TEST(Savings, AnotherServersFileIsLeftToIt) {
  sim::SimFileSystem files;
  ASSERT_TRUE(files.make_directories("/cache").ok());
  bool keeps = false;
  Savings member({.path = kSavingsPath, .may_write = [&] { return keeps; }, .now_ns = 7}, files);
  member.keep(some_work(5'000));
  EXPECT_EQ(Savings({.path = kSavingsPath}, files).sums({}).ever.reused_tokens, 0U);
  EXPECT_EQ(member.sums(some_work(5'000)).ever.reused_tokens, 5'000U);
  keeps = true;
  member.keep(some_work(5'000));
  EXPECT_EQ(Savings({.path = kSavingsPath}, files).sums({}).ever.reused_tokens, 5'000U);
}

// The keeper works on after this server started, and then stops; or another one keeps the file for a while.
TEST(Savings, AddToWhatAnotherServerLeft) {
  sim::SimFileSystem files;
  ASSERT_TRUE(files.make_directories("/cache").ok());
  const auto reused = [](Savings& savings, std::uint64_t now) {
    return savings.sums(some_work(now)).ever.reused_tokens;
  };
  Savings keeper({.path = kSavingsPath, .now_ns = 7}, files);
  keeper.keep(some_work(1'000));
  bool keeps = false;
  Savings member({.path = kSavingsPath, .may_write = [&] { return keeps; }, .now_ns = 9}, files);
  keeper.keep(some_work(3'000));
  keeps = true;
  member.keep(some_work(50));
  EXPECT_EQ(reused(member, 50), 3'050U);
  EXPECT_EQ(Savings({.path = kSavingsPath}, files).sums({}).ever.reused_tokens, 3'050U);
  keeps = false;
  member.keep(some_work(60));
  Savings next({.path = kSavingsPath}, files);
  next.keep(some_work(100));
  keeps = true;
  member.keep(some_work(70));
  EXPECT_EQ(reused(member, 70), 3'170U) << "its 50 were in the file already";
  EXPECT_EQ(member.since_ns(), 7);
}

}  // namespace
}  // namespace kvkeep::server
