#include "bench/report/demo_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvkeep::bench {
namespace {

using testing::HasSubstr;

RequestFigures turn(const char* label, std::uint64_t prompt, std::uint64_t cached, const char* source, double ttft_ms) {
  RequestFigures figures;
  figures.label = label;
  figures.prompt_tokens = prompt;
  figures.cached_tokens = cached;
  figures.prefilled_tokens = figures.ideal_tokens = prompt - cached;
  figures.cache_source = source;
  figures.ttft_ms = ttft_ms;
  return figures;
}

TEST(DemoTable, ATurnHasABarAndItsCounts) {
  const std::string line = demo_turn(turn("turn A 3", 1200, 900, "disk-token", 41));
  EXPECT_THAT(line, HasSubstr("   A 3  ░░░░░░░░░░░░░░░░░░██████    1,200     900        300  disk        41 ms"));
}

TEST(DemoTable, AFewPrefilledTokensAreVisible) {
  EXPECT_THAT(demo_turn(turn("turn A 3", 100'000, 99'999, "memory-token", 1)), HasSubstr("░█ "));
  EXPECT_THAT(demo_turn(turn("turn A 3", 10, 10, "memory-token", 1)), testing::Not(HasSubstr("█")));
}

TEST(DemoTable, ATurnThatKnewNothingNamesNoTier) {
  const std::string line = demo_turn(turn("turn A 1", 1000, 0, "none", 1000));
  EXPECT_THAT(line, HasSubstr("  -          1.00 s"));
  EXPECT_THAT(line, testing::Not(HasSubstr("░")));
}

TEST(DemoTable, ComparesTheRuns) {
  RunFigures with;
  with.requests = {turn("turn A 1", 1000, 0, "none", 500), turn("turn A 2", 1500, 1200, "disk-token", 100)};
  RunFigures without;
  without.requests = {turn("turn A 1", 1000, 0, "none", 500), turn("turn A 2", 1500, 0, "none", 700)};
  const std::string text = demo_comparison(with, without, 1, 2);
  EXPECT_THAT(text, HasSubstr("-- kill -9, new server --\n   A 2   1,500     1,200        300 disk       100 ms"));
  EXPECT_THAT(text, HasSubstr("   all   2,500     1,200      1,300            600 ms       2,500    1.20 s\n"));
  EXPECT_THAT(text, HasSubstr("ideal: tokens never computed before      1,300\n"));
  EXPECT_THAT(text, HasSubstr("prefilled / ideal, with the cache         1.00\n"));
  EXPECT_THAT(text, HasSubstr("prefilled / ideal, without it             1.92\n"));
  EXPECT_THAT(text, HasSubstr("TTFT without the cache / with it          2.00 "));
  EXPECT_THAT(text, HasSubstr("replies that are equal in both runs          2 of 2\n"));
}

}  // namespace
}  // namespace kvkeep::bench
