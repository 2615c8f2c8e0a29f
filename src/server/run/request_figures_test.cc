#include "server/run/request_figures.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace kvkeep::server {
namespace {

TEST(RequestFigures, AStartCountsWhatIsReused) {
  RequestFigures figures;
  figures.note_start({.prompt_tokens = 100,
                      .cached_tokens = 75,
                      .memory_tokens = 40,
                      .ram_tokens = 20,
                      .disk_tokens = 10,
                      .shared_tokens = 5,
                      .miss = MissReason::kNoPoint,
                      .load_ms = 200},
                     /*ahead=*/false);
  figures.note_start({.prompt_tokens = 5, .miss = MissReason::kNothingCached}, /*ahead=*/false);
  EXPECT_EQ(figures.memory_tokens, 40U);
  EXPECT_EQ(figures.ram_tokens, 20U);
  EXPECT_EQ(figures.disk_tokens, 10U);
  EXPECT_EQ(figures.shared_tokens, 5U);
  const auto& missed = figures.missed[static_cast<std::size_t>(MissReason::kNoPoint)];
  EXPECT_EQ(missed.prompts, 1U);
  EXPECT_EQ(missed.tokens, 0U) << "nothing was prefilled yet";
  EXPECT_EQ(figures.new_tokens, 0U);
  EXPECT_EQ(figures.queue.count(), 2U);
  EXPECT_EQ(figures.load.count(), 1U) << "the other restored nothing";
  EXPECT_DOUBLE_EQ(figures.load.sum(), 0.2);
}

TEST(RequestFigures, PrefilledTokensCountCallByCall) {
  RequestFigures figures;
  figures.note_prefilled({.why = MissReason::kNoPoint, .all = 25, .unseen = 10, .again = 15}, 500);
  figures.note_prefilled({.why = MissReason::kNothingCached, .all = 5, .unseen = 5}, 250);
  const auto missed = [&](MissReason reason) { return figures.missed[static_cast<std::size_t>(reason)].tokens; };
  EXPECT_EQ(missed(MissReason::kNoPoint), 25U);
  EXPECT_EQ(missed(MissReason::kNothingCached), 5U);
  EXPECT_EQ(figures.new_tokens, 15U);
  EXPECT_EQ(figures.again_tokens, 15U);
  EXPECT_EQ(figures.slice.count(), 2U);
  EXPECT_DOUBLE_EQ(figures.slice.sum(), 0.75);
}

TEST(RequestFigures, APrefillAheadSparesNobodyAnything) {
  RequestFigures figures;
  figures.note_start({.prompt_tokens = 100, .cached_tokens = 60, .load_ms = 3}, /*ahead=*/true);
  EXPECT_EQ(figures.reused_tokens, 0U);
  EXPECT_EQ(figures.reuse_load_ms, 0);
  figures.note_start({.prompt_tokens = 100, .cached_tokens = 60, .load_ms = 3}, /*ahead=*/false);
  EXPECT_EQ(figures.reused_tokens, 60U);
  EXPECT_EQ(figures.reuse_load_ms, 3);
}

TEST(RequestFigures, TheFirstTokenIsTimedFromTheArrivalAndOthersFromTheOneBefore) {
  RequestFigures figures;
  JobStats stats{.predicted_tokens = 1, .queue_ms = 500, .prompt_ms = 1'000};
  figures.note_token(stats, 0);
  ++stats.predicted_tokens;
  figures.note_token(stats, 250);
  EXPECT_DOUBLE_EQ(figures.first_token.sum(), 1.5);
  EXPECT_EQ(figures.first_token.count(), 1U);
  EXPECT_DOUBLE_EQ(figures.token_gap.sum(), 0.25);
  EXPECT_EQ(figures.token_gap.count(), 1U);
}

TEST(RequestFigures, AnEndCountsWhatWasMovedAndWhatFailed) {
  RequestFigures figures;
  figures.note_end(Finish::kGone, {.read = {ByteCount{7}, 1},
                                   .shared_read = {ByteCount{8}, 4},
                                   .restored = {ByteCount{9}, 2},
                                   .failed_reads = 1,
                                   .refused_restores = 2,
                                   .failed_calls = 3});
  figures.note_end(Finish::kGone, {});
  EXPECT_EQ(figures.ends[static_cast<std::size_t>(Finish::kGone)], 2U);
  EXPECT_EQ(figures.read.bytes, ByteCount{7});
  EXPECT_EQ(figures.shared_read.bytes, ByteCount{8});
  EXPECT_EQ(figures.restored.ms, 2);
  EXPECT_EQ(figures.failed_reads, 1U);
  EXPECT_EQ(figures.refused_restores, 2U);
  EXPECT_EQ(figures.failed_calls, 3U);
}

Tenant tenant_number(int number) { return tenant_of({}, "salt " + std::to_string(number)); }

TEST(TenantSums, AddsUpTheRequestsOfEachTenant) {
  TenantSums sums;
  EXPECT_TRUE(sums.all().empty());
  const JobStats stats{.prompt_tokens = 10, .cached_tokens = 7, .prefilled_tokens = 3, .predicted_tokens = 2};
  sums.note_end(kNoTenant, stats, 5);
  sums.note_end(tenant_number(1), stats, 6);
  sums.note_end(kNoTenant, stats, 7);
  ASSERT_EQ(sums.all().size(), 2U);
  const TenantFigures& last = sums.all()[0];
  EXPECT_EQ(last.tenant, kNoTenant) << "its request ended last";
  EXPECT_EQ(last.number, 1U);
  EXPECT_EQ(last.requests, 2U);
  EXPECT_EQ(last.prompt_tokens, 20U);
  EXPECT_EQ(last.cached_tokens, 14U);
  EXPECT_EQ(last.prefilled_tokens, 6U);
  EXPECT_EQ(last.predicted_tokens, 4U);
  EXPECT_EQ(last.last_ns, 7);
  EXPECT_EQ(sums.all()[1].number, 2U);
  EXPECT_EQ(sums.all()[1].requests, 1U);
}

TEST(TenantSums, ForgetsTheTenantThatWasAwayForLongest) {
  TenantSums sums;
  for (int i = 0; i < static_cast<int>(TenantSums::kMostTenants); ++i) sums.note_end(tenant_number(i), {}, i);
  sums.note_end(tenant_number(0), {}, 1'000);
  EXPECT_EQ(sums.forgotten(), 0U);
  sums.note_end(kNoTenant, {}, 1'001);
  EXPECT_EQ(sums.all().size(), TenantSums::kMostTenants);
  EXPECT_EQ(sums.forgotten(), 1U);
  EXPECT_EQ(std::ranges::count(sums.all(), tenant_number(0), &TenantFigures::tenant), 1);
  EXPECT_EQ(std::ranges::count(sums.all(), tenant_number(1), &TenantFigures::tenant), 0);
  sums.note_end(tenant_number(1), {}, 1'002);
  EXPECT_EQ(sums.all()[0].requests, 1U) << "counted anew";
  EXPECT_EQ(sums.all()[0].number, TenantSums::kMostTenants + 2);
}

}  // namespace
}  // namespace kvkeep::server
