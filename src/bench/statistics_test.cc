#include "bench/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/test_seed.h"

namespace kvkeep::bench {
namespace {

void expect_quartiles(const std::vector<double>& values, double low, double median, double high) {
  const Quartiles found = quartiles_of(values);
  EXPECT_DOUBLE_EQ(found.low, low);
  EXPECT_DOUBLE_EQ(found.median, median);
  EXPECT_DOUBLE_EQ(found.high, high);
}

// Expected values are those of quantile(x, c(.25, .5, .75), type = 7) in R.
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

}  // namespace
}  // namespace kvkeep::bench
