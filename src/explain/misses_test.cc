#include "explain/misses.h"

#include <gtest/gtest.h>

namespace kvkeep::explain {
namespace {

CacheBreak of_kind(BreakKind kind, std::size_t lost, VolatileText what = VolatileText::kNone) {
  return {.kind = kind, .what = what, .lost_tokens = lost};
}

TEST(Misses, AddUpByKindTheLargestFirst) {
  Misses misses;
  misses.count(of_kind(BreakKind::kNewContent, 0), 300);
  misses.count(of_kind(BreakKind::kVolatileText, 900, VolatileText::kDate), 1'000);
  misses.count(of_kind(BreakKind::kVolatileText, 800, VolatileText::kDate), 1'000);
  misses.count(of_kind(BreakKind::kVolatileText, 700, VolatileText::kGitStatus), 1'500);
  const std::vector<Misses::Kind> expected = {
      {"volatile-text", "date", 2, 2'000, 1'700},
      {"volatile-text", "git-status", 1, 1'500, 700},
      {"new-content", "", 1, 300, 0},
  };
  EXPECT_EQ(misses.by_kind(), expected);
  EXPECT_EQ(misses.misses(), 4U);
  EXPECT_EQ(misses.tokens(), 3'800U);
}

TEST(Misses, BeginBeyondAHundredTokens) {
  Misses misses;
  misses.count(of_kind(BreakKind::kNewContent, 0), Misses::kBeyond);
  misses.count(of_kind(BreakKind::kNone, 0), 0);
  EXPECT_EQ(misses.misses(), 0U);
  EXPECT_EQ(misses.requests(), 2U);
  misses.count(of_kind(BreakKind::kNewContent, 0), Misses::kBeyond + 1);
  EXPECT_EQ(misses.misses(), 1U);
  EXPECT_EQ(misses.requests(), 3U);
}

// A miss without a kind is a mistake of the explanations: it must be seen.
TEST(Misses, WithoutAKindAreCountedToo) {
  Misses misses;
  misses.count(of_kind(BreakKind::kNone, 0), 500);
  ASSERT_EQ(misses.by_kind().size(), 1U);
  EXPECT_EQ(misses.by_kind()[0].kind, "none");
}

// A request that ended early lost no more than it got to.
TEST(Misses, LoseNoMoreThanTheyMiss) {
  Misses misses;
  misses.count("evicted", "", 200, 5'000);
  EXPECT_EQ(misses.by_kind()[0].lost_tokens, 200U);
}

TEST(Misses, OfSeveralRecordingsAddUp) {
  Misses first;
  Misses second;
  first.count("evicted", "", 200, 150);
  second.count("evicted", "", 300, 250);
  second.count("volatile-text", "date", 400, 350);
  second.count("new-content", "", 5, 0);
  first.merge(second);
  const std::vector<Misses::Kind> expected = {{"evicted", "", 2, 500, 400}, {"volatile-text", "date", 1, 400, 350}};
  EXPECT_EQ(first.by_kind(), expected);
  EXPECT_EQ(first.requests(), 4U);
}

TEST(Misses, AreATable) {
  Misses misses;
  EXPECT_EQ(misses_text(misses, 100), "Misses beyond 100 tokens: 0 of 0 requests\n");
  misses.count("new-content", "", 5, 0);
  EXPECT_EQ(misses_text(misses, 100), "Misses beyond 100 tokens: 0 of 1 request\n");
  misses.count("volatile-text", "date", 12'345, 12'000);
  misses.count("new-content", "", 300, 0);
  EXPECT_EQ(misses_text(misses, 100),
            "Misses beyond 100 tokens: 2 of 3 requests, 12,645 tokens\n"
            "requests  tokens  computed before  kind\n"
            "       1  12,345           12,000  volatile-text (date)\n"
            "       1     300                0  new-content\n");
}

}  // namespace
}  // namespace kvkeep::explain
