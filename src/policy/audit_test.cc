#include "policy/audit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace kvkeep::policy {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool can_be_put(const std::vector<Restorable>& restorable, Position at) {
  if (at == Position{}) return true;
  for (const Restorable& run : restorable) {
    if (run.first <= at && at <= run.last) return true;
  }
  return false;
}

std::vector<Restorable> runs_of(std::uint32_t places) {
  std::vector<Restorable> runs;
  for (std::uint32_t at = 1; at <= 10; ++at) {
    if ((places >> (at - 1) & 1) == 0) continue;
    if (!runs.empty() && runs.back().last + 1 == Position{at}) {
      runs.back().last = Position{at};
    } else {
      runs.push_back({Position{at}, Position{at}, CacheTier::kDisk, {}});
    }
  }
  return runs;
}

// Every set of places within ten positions, every place that the path's last segment may begin at.
TEST(AuditPiece, LiesBetweenPlacesAndWithinTheLimits) {
  const AuditLimits limits{.tokens = 3, .most_tokens = 6};
  for (std::uint32_t places = 0; places < 1024; ++places) {
    const auto runs = runs_of(places);
    for (std::uint32_t from = 0; from < 10; ++from) {
      for (std::uint64_t random = 0; random < 12; ++random) {
        const auto piece = choose_piece(runs, Position{from}, random, limits);
        if (!piece) continue;
        ASSERT_FALSE(runs.empty());
        ASSERT_LT(piece->begin, piece->end);
        ASSERT_TRUE(can_be_put(runs, piece->begin) && can_be_put(runs, piece->end)) << places << " " << from;
        ASSERT_TRUE(piece->end > Position{from} || runs.back().last <= Position{from});
        ASSERT_LE(piece->size(), limits.most_tokens);
        for (Position at = piece->begin + 1; piece->size() > limits.tokens && at < piece->end; at = at + 1) {
          ASSERT_FALSE(can_be_put(runs, at)) << "longer than wanted only where there is no place between";
        }
      }
    }
  }
}

TEST(AuditPiece, IsThereWhereTheLimitsAllowOne) {
  const AuditLimits limits{.tokens = 3, .most_tokens = 6};
  for (std::uint32_t places = 1; places < 1024; ++places) {
    const auto runs = runs_of(places);
    const Position end = runs.back().last;
    bool possible = false;
    for (std::uint32_t at = end.value() - std::min(6U, end.value()); at < end.value(); ++at) {
      possible |= can_be_put(runs, Position{at});
    }
    const auto piece = choose_piece(runs, end.value() > 1 ? Position{end.value() - 1} : Position{}, 0, limits);
    ASSERT_EQ(piece.has_value(), possible) << places;
  }
}

TEST(AuditPiece, EndsAnywhereInTheLastSegment) {
  const std::vector<Restorable> rows{{Position{1}, Position{2000}, CacheTier::kDisk, {}}};
  std::vector<bool> ends(2001);
  for (std::uint64_t random = 0; random < 500; ++random) {
    const auto piece = choose_piece(rows, Position{1500}, random, {});
    ASSERT_TRUE(piece);
    ASSERT_EQ(piece->size(), 512U);
    ends[piece->end.value()] = true;
  }
  EXPECT_EQ(std::count(ends.begin() + 1501, ends.end(), true), 500);
}

std::vector<float> answer(std::uint32_t seed, float noise = 0, float offset = 0) {
  std::mt19937 random(seed);
  std::mt19937 other(99);
  std::normal_distribution<float> normal;
  std::vector<float> logits(2000);
  for (float& logit : logits) logit = 3 * normal(random) + noise * normal(other) + offset;
  return logits;
}

TEST(AuditDifference, IsRelativeAndBlindToWhatIsAddedToAll) {
  EXPECT_EQ(difference(answer(1), answer(1)), 0);
  EXPECT_NEAR(difference(answer(1), answer(2)), std::sqrt(2.0), 0.1);
  EXPECT_NEAR(difference(answer(1, 0.3F), answer(1)), 0.1, 0.01);
  EXPECT_NEAR(difference(answer(1, 0, 50), answer(1)), 0, 1e-4);
}

TEST(AuditDifference, ToWhatIsNoNumberIsInfinite) {
  auto broken = answer(1);
  broken[7] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(difference(broken, answer(1)), kInfinity);
  EXPECT_EQ(difference(answer(1), broken), kInfinity);
  EXPECT_EQ(difference(broken, broken), kInfinity);
  EXPECT_FALSE(agrees(kInfinity));
}

TEST(AuditVerdict, IsAgainstWhatIsBeyondTheFloorAndBeyondTheNoise) {
  EXPECT_FALSE(is_wrong({.least_between = 0.09}));
  EXPECT_TRUE(is_wrong({.least_between = 0.11}));
  EXPECT_FALSE(is_wrong({.least_between = 0.11, .computed = 0.03}));
  EXPECT_FALSE(is_wrong({.least_between = 0.11, .restored = 0.03}));
  EXPECT_TRUE(is_wrong({.least_between = 0.13, .computed = 0.03}));
  EXPECT_TRUE(is_wrong({.least_between = kInfinity, .computed = 0.01, .restored = kInfinity}));
  EXPECT_FALSE(is_wrong({.least_between = kInfinity, .computed = kInfinity, .restored = kInfinity}))
      << "the model itself computes no numbers";
  EXPECT_FALSE(is_wrong({.least_between = kInfinity, .computed = kInfinity}));
}

}  // namespace
}  // namespace kvkeep::policy
