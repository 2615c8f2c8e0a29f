#include "bench/run/load.h"

#include <gtest/gtest.h>

#include <set>

#include "bench/run/load_scenarios.h"

namespace kvkeep::bench {
namespace {

constexpr Goal kAtLeastEqual{Goal::Kind::kAtLeast, 1};
constexpr Goal kAtMostOne{Goal::Kind::kAtMost, 1};

std::vector<LoadFigure> rate_and_count(double rate, double count) {
  return {{.name = "rate", .unit = "tokens/s", .value = rate, .ratio_goal = kAtLeastEqual, .more_is_better = true},
          {.name = "refused", .unit = "count", .value = count, .goal = kAtMostOne, .is_count = true}};
}

TEST(LoadParts, CompareWithTheBestPeerOfEachRound) {
  const std::vector<LoadSide> sides = {{"kvkeep", {rate_and_count(100, 0), rate_and_count(120, 2)}},
                                       {"peer", {rate_and_count(50, 0), rate_and_count(60, 0)}},
                                       {"peer -kvu", {rate_and_count(200, 0), rate_and_count(30, 0)}}};
  const std::vector<PartFigures> parts = load_parts(sides, /*has_time_goals=*/true);
  ASSERT_EQ(parts.size(), 7U) << "a ratio and three sides; three sides of a count";
  EXPECT_EQ(parts[0].name, "rate: kvkeep / best peer");
  EXPECT_EQ(parts[0].median, (0.5 + 2) / 2);
  EXPECT_EQ(parts[0].goal, ">= 1");
  EXPECT_EQ(parts[1].name, "rate: kvkeep");
  EXPECT_EQ(parts[1].goal, "");
  EXPECT_EQ(parts[4].name, "refused: kvkeep");
  EXPECT_EQ(parts[4].goal, "<= 1");
  EXPECT_TRUE(parts[4].is_count);
  EXPECT_FALSE(parts[1].is_count);
  EXPECT_EQ(parts[5].goal, "") << "a peer has no goal";
}

TEST(LoadParts, AnotherLayoutOfKvkeepIsNoPeer) {
  const std::vector<LoadSide> sides = {{"kvkeep", {rate_and_count(100, 0)}},
                                       {"kvkeep -kvu", {rate_and_count(400, 9)}, /*is_peer=*/false},
                                       {"peer", {rate_and_count(50, 0)}}};
  const std::vector<PartFigures> parts = load_parts(sides, true);
  ASSERT_EQ(parts.size(), 7U);
  EXPECT_EQ(parts[0].name, "rate: kvkeep / peer");
  EXPECT_EQ(parts[0].median, 2);
  EXPECT_EQ(parts[5].name, "refused: kvkeep -kvu");
  EXPECT_EQ(parts[5].goal, "");
}

TEST(LoadParts, OfTinyModelsHaveGoalsOnlyForCounts) {
  const std::vector<LoadSide> sides = {{"kvkeep", {rate_and_count(1, 0)}}, {"peer", {rate_and_count(2, 0)}}};
  const std::vector<PartFigures> parts = load_parts(sides, /*has_time_goals=*/false);
  ASSERT_EQ(parts.size(), 5U);
  EXPECT_EQ(parts[0].name, "rate: kvkeep / peer");
  EXPECT_EQ(parts[0].goal, "");
  EXPECT_EQ(parts[3].goal, "<= 1");
}

TEST(LoadParts, ASideWithoutRoundsCostsOnlyTheRatio) {
  EXPECT_TRUE(load_parts({{"kvkeep", {{}}}}, true).empty());
  EXPECT_EQ(load_parts({{"kvkeep", {rate_and_count(1, 0)}}}, true).size(), 2U);
  const auto parts = load_parts({{"kvkeep", {{}}}, {"peer", {rate_and_count(1, 0)}}}, true);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0].name, "rate: peer");
}

TEST(LoadParts, ARoundThatFailedIsComparedWithNone) {
  const std::vector<LoadSide> sides = {{"kvkeep", {{}, rate_and_count(100, 0)}},
                                       {"peer", {rate_and_count(1, 0), rate_and_count(50, 0)}}};
  const std::vector<PartFigures> parts = load_parts(sides, true);
  EXPECT_EQ(parts[0].median, 2) << "of the second round, in which both ran";
  EXPECT_EQ(parts[0].samples, 1U);
}

TEST(LoadScenarios, HaveNamesOfTheirOwn) {
  const std::vector<std::string> names = load_scenario_names();
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
}

}  // namespace
}  // namespace kvkeep::bench
