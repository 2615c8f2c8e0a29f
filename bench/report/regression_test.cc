#include "bench/report/regression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/report/report.h"

namespace kvkeep::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

RunFigures run_of(std::string workload, std::string variant, std::uint64_t prefilled) {
  RunFigures run;
  run.workload = std::move(workload);
  run.server = "kvkeep";
  run.variant = std::move(variant);
  RequestFigures request;
  request.prompt_tokens = 3'000;
  request.prefilled_tokens = prefilled;
  request.ideal_tokens = 1'000;
  run.requests.push_back(request);
  return run;
}

Report report_of(std::vector<RunFigures> runs) {
  Report report;
  report.runs = std::move(runs);
  return report;
}

TEST(RegressionTest, SameCountsAreFine) {
  const Report kept = report_of({run_of("a", "", 1'000), run_of("b", "", 1'010)});
  EXPECT_THAT(regressions(kept, kept), IsEmpty());
}

TEST(RegressionTest, RatioMayBeBetterOrALittleWorse) {
  const Report kept = report_of({run_of("a", "", 1'010)});
  EXPECT_THAT(regressions(report_of({run_of("a", "", 1'000)}), kept), IsEmpty());
  EXPECT_THAT(regressions(report_of({run_of("a", "", 1'014)}), kept), IsEmpty());
  EXPECT_THAT(regressions(report_of({run_of("a", "", 1'016)}), kept),
              ElementsAre("a, kvkeep: ratio 1.0160, kept 1.0100"));
}

TEST(RegressionTest, EveryCountMustBeTheSame) {
  const Report kept = report_of({run_of("a", "", 1'000)});
  Report now = kept;
  now.runs[0].requests[0].prompt_tokens = 3'001;
  EXPECT_THAT(regressions(now, kept), ElementsAre("a, kvkeep: prompt tokens 3001, kept 3000"));
  now = kept;
  now.runs[0].requests[0].ideal_tokens = 1'001;
  EXPECT_THAT(regressions(now, kept), ElementsAre("a, kvkeep: ideal tokens 1001, kept 1000"));
  now = kept;
  now.runs[0].requests.emplace_back();
  EXPECT_THAT(regressions(now, kept), ElementsAre("a, kvkeep: requests 2, kept 1"));
  now = kept;
  now.runs[0].counted_by = CountedBy::kReply;
  EXPECT_THAT(regressions(now, kept), ElementsAre(HasSubstr("by the reply")));
}

TEST(RegressionTest, ARunThatFailedIsReported) {
  const Report kept = report_of({run_of("a", "", 1'000)});
  Report now = kept;
  now.runs[0].requests.clear();
  EXPECT_THAT(regressions(now, kept),
              ElementsAre("a, kvkeep: requests 0, kept 1", "a, kvkeep: prompt tokens 0, kept 3000",
                          "a, kvkeep: ideal tokens 0, kept 1000"));
}

TEST(RegressionTest, RunsMustBeTheSame) {
  const Report kept = report_of({run_of("a", "", 1'000), run_of("a", "no RAM", 1'000), run_of("b", "", 1'000)});
  const Report now = report_of({run_of("a", "", 1'000), run_of("c", "", 1'000)});
  EXPECT_THAT(regressions(now, kept),
              ElementsAre("c, kvkeep: nothing was kept to compare with", "a, kvkeep (no RAM): kept, but not played"));
}

TEST(RegressionTest, AMissingWorkloadIsReportedWhereAllWereToBePlayed) {
  const Report kept = report_of({run_of("a", "", 1'000), run_of("b", "", 1'000)});
  const Report now = report_of({run_of("a", "", 1'000)});
  EXPECT_THAT(regressions(now, kept, Scope::kAll), ElementsAre("b, kvkeep: kept, but not played"));
  EXPECT_THAT(regressions(now, kept, Scope::kChosen), IsEmpty());
  EXPECT_THAT(regressions(kept, kept, Scope::kAll), IsEmpty());
}

Report counting(double refused, double share,
                std::optional<Goal> goal = Goal{.kind = Goal::Kind::kAtLeast, .value = 1}) {
  Report report;
  report.parts.push_back(summarize("refused", "count", {refused}, goal));
  report.parts.push_back(summarize("prefilled / new", "share", {share}, Goal{.value = 1.1}));
  report.parts.push_back(summarize("of a peer", "count", {7}));
  for (PartFigures& part : report.parts) part.is_count = true;
  report.parts.push_back(summarize("wall", "ms", {share * 1'000}, Goal{.value = 5'000}));
  return report;
}

TEST(RegressionTest, CountsWithAGoalAreKept) {
  const auto kept = read_json(to_json(counts_only(counting(600, 1.02))));
  ASSERT_TRUE(kept.ok()) << kept.error().message;
  ASSERT_EQ(kept->parts.size(), 2U);
  EXPECT_TRUE(kept->parts[0].is_count);
  EXPECT_EQ(kept->parts[0].median, 0) << "as many as there was time for";
  EXPECT_THAT(regressions(counting(3, 1.024), *kept), IsEmpty());
  EXPECT_THAT(regressions(counting(3, 1.03), *kept), ElementsAre("prefilled / new: 1.0300, kept 1.0200"));
  EXPECT_THAT(regressions(counting(3, 1.02, Goal{.kind = Goal::Kind::kAtLeast, .value = 0}), *kept),
              ElementsAre("refused: goal >= 0, kept >= 1"));
  EXPECT_THAT(regressions(counting(3, 1.02), Report()),
              ElementsAre(HasSubstr("refused: nothing was kept"), HasSubstr("new: nothing was kept")));
}

TEST(RegressionTest, AKeptReportHasNoTimesAndSurvivesJson) {
  Report report = report_of({run_of("a", "", 1'000)});
  report.started = "2026-01-01T00:00:00Z";
  report.machine.processor = "a processor";
  report.runs[0].requests[0].ttft_ms = 12;
  report.runs[0].requests[0].total_ms = 34;
  report.runs[0].server_cpu_s = 5;
  report.runs[0].requests[0].cache_source = "ram-token";
  report.parts.push_back(summarize("decode", "us", {1'628}));
  const Report kept = counts_only(report);
  EXPECT_EQ(kept.started, "");
  EXPECT_EQ(kept.machine.processor, "");
  EXPECT_THAT(kept.parts, IsEmpty());
  EXPECT_EQ(kept.runs[0].requests[0].cache_source, "");
  EXPECT_EQ(kept.runs[0].requests[0].ttft_ms, 0);
  EXPECT_EQ(kept.runs[0].requests[0].total_ms, 0);
  EXPECT_EQ(kept.runs[0].server_cpu_s, std::nullopt);
  const auto read = read_json(to_json(kept));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_THAT(regressions(report, *read), IsEmpty());
}

}  // namespace
}  // namespace kvkeep::bench
