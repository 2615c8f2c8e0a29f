#include "bench/report/figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/test_seed.h"
#include "bench/report/report_fixture.h"
#include "bench/report/summary.h"

namespace kvkeep::bench {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

void expect_quartiles(const std::vector<double>& values, double low, double median, double high) {
  const Quartiles found = quartiles_of(values);
  EXPECT_DOUBLE_EQ(found.low, low);
  EXPECT_DOUBLE_EQ(found.median, median);
  EXPECT_DOUBLE_EQ(found.high, high);
}

// The expected values are those of quantile(x, c(.25, .5, .75), type = 7) in R.
TEST(Quartiles, KnownValues) {
  expect_quartiles({5}, 5, 5, 5);
  expect_quartiles({1, 2}, 1.25, 1.5, 1.75);
  expect_quartiles({1, 2, 3}, 1.5, 2, 2.5);
  expect_quartiles({1, 2, 3, 4}, 1.75, 2.5, 3.25);
  expect_quartiles({1, 2, 3, 4, 5}, 2, 3, 4);
  expect_quartiles({7, 15, 36, 39, 40, 41}, 20.25, 37.5, 39.75);
  expect_quartiles({6, 7, 15, 36, 39, 40, 41, 42, 43, 47, 49}, 25.5, 40, 42.5);
  expect_quartiles({-1, -1, -1, 8}, -1, -1, 1.25);
}

TEST(Quartiles, OrderDoesNotMatter) {
  std::mt19937_64 random(test_seed());
  std::vector<double> values = {7, 15, 36, 39, 40, 41};
  for (int i = 0; i < 100; ++i) {
    std::ranges::shuffle(values, random);
    expect_quartiles(values, 20.25, 37.5, 39.75);
  }
}

TEST(QuartilesDeathTest, NothingHasNoQuartiles) { EXPECT_DEATH(quartiles_of({}), "no quartiles"); }

TEST(Goals, AreMetOnTheirEdges) {
  const auto part = [](double value, Goal goal) { return summarize("name", "ratio", {value}, goal); };
  constexpr Goal kMost{Goal::Kind::kAtMost, 1.1};
  constexpr Goal kLeast{Goal::Kind::kAtLeast, 0.7};
  constexpr Goal kWithin{Goal::Kind::kWithin, 1, 1.1};
  EXPECT_EQ(part(1.1, kMost).goal, "<= 1.1");
  EXPECT_EQ(part(1.1, kMost).holds, true);
  EXPECT_EQ(part(1.11, kMost).holds, false);
  EXPECT_EQ(part(0.7, kLeast).goal, ">= 0.7");
  EXPECT_EQ(part(0.7, kLeast).holds, true);
  EXPECT_EQ(part(0.69, kLeast).holds, false);
  EXPECT_EQ(part(1, kWithin).goal, "1 to 1.1");
  EXPECT_EQ(part(1, kWithin).holds, true);
  EXPECT_EQ(part(1.1, kWithin).holds, true);
  EXPECT_EQ(part(0.99, kWithin).holds, false);
  EXPECT_EQ(part(1.11, kWithin).holds, false);
}

TEST(Goals, AreNotJudgedByFiguresThatSpreadAcrossThem) {
  const auto part = [](std::vector<double> values, Goal goal) { return summarize("name", "ratio", values, goal); };
  constexpr Goal kLeast{Goal::Kind::kAtLeast, 0.9};
  const PartFigures wide = part({0.67, 0.67, 0.93, 1.26, 1.26}, kLeast);
  EXPECT_EQ(wide.holds, std::nullopt);
  EXPECT_EQ(wide.unmeasurable, "its quartiles lie on both sides of the goal");
  EXPECT_EQ(wide.goal, ">= 0.9");
  EXPECT_EQ(part({0.1, 0.5, 0.8, 0.85, 5}, kLeast).holds, false) << "all but an outlier are on one side";
  EXPECT_EQ(part({0.1, 0.95, 0.97, 0.99, 5}, kLeast).holds, true);
  EXPECT_EQ(part({0.5, 0.6, 1, 1.2, 1.3}, {Goal::Kind::kAtMost, 1.1}).holds, std::nullopt);
  EXPECT_EQ(part({0.9, 0.9, 1.05, 1.2, 1.2}, {Goal::Kind::kWithin, 1, 1.1}).holds, std::nullopt);
  EXPECT_EQ(part({0.8, 0.8, 0.9, 0.95, 0.95}, {Goal::Kind::kWithin, 1, 1.1}).holds, false);
}

TEST(Goals, AreNotJudgedByWhatIsImpossible) {
  constexpr Goal kGoal{.kind = Goal::Kind::kAtLeast, .value = 0.9, .possible_most = 1.05};
  const PartFigures impossible = summarize("name", "ratio", {1.38, 1.39, 1.4}, kGoal);
  EXPECT_EQ(impossible.holds, std::nullopt);
  EXPECT_EQ(impossible.unmeasurable, "its median is above 1.05, the most that is possible");
  EXPECT_EQ(summarize("name", "ratio", {1.02, 1.03, 1.06}, kGoal).holds, true);
}

TEST(Summary, CountsFailuresAndBounds) {
  const Report report = small_report();
  const RunSummary own = summary_of(report.runs[0]);
  EXPECT_EQ(own.failed, 0u);
  EXPECT_EQ(own.ratio, 1.0);
  EXPECT_FALSE(own.above_bound);
  ASSERT_TRUE(own.ttft_ms);
  EXPECT_EQ(own.ttft_ms->low, 16.4375);
  EXPECT_EQ(own.ttft_ms->median, 24.375);
  EXPECT_EQ(own.ttft_ms->high, 32.3125);
  EXPECT_EQ(own.cached_tokens, 1000u);
  const RunSummary peer = summary_of(report.runs[1]);
  EXPECT_EQ(peer.failed, 1u);
  EXPECT_TRUE(peer.above_bound);
  ASSERT_TRUE(peer.ttft_ms);
  EXPECT_EQ(peer.ttft_ms->median, 42.5) << "the failed request has no time to the first token";
}

TEST(Summary, NothingNewHasNoRatio) {
  RunFigures run;
  run.bound = 1.02;
  run.requests = {request_of("again", 10, 10, 0, 1)};
  EXPECT_EQ(summary_of(run).ratio, std::nullopt);
  EXPECT_FALSE(summary_of(run).above_bound);
}

TEST(Summary, ListsEverythingThatIsWrong) {
  EXPECT_THAT(problems_of(small_report()),
              ElementsAre("growing on llama-server (default cache): turn main 3: status 503, Loading model",
                          "growing on llama-server (default cache): ratio 1.847 is above its bound 1.020",
                          "lookup of a 100k-token prompt: 2.500 ms misses its goal <= 2 ms"));
  EXPECT_THAT(problems_of(realistic_report(false)), IsEmpty());
}

TEST(Summary, RunsOfAWorkloadStandTogetherInTheOrderPlayed) {
  Report report;
  for (const char* workload : {"b", "a", "b", "a"}) report.runs.push_back(run_of(workload, "", "server"));
  const auto& runs = report.runs;
  EXPECT_THAT(by_workload(report), ElementsAre(&runs[0], &runs[2], &runs[1], &runs[3]));
}

}  // namespace
}  // namespace kvkeep::bench
