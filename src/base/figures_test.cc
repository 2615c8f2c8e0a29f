#include "base/figures.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "base/test_seed.h"

namespace kvkeep {
namespace {

constexpr std::array kBounds = {1.0, 2.0, 4.0};
using Small = Histogram<kBounds>;

std::vector<std::uint64_t> counts_of(const Small& histogram) {
  return {histogram.counts().begin(), histogram.counts().end()};
}

TEST(Histogram, CountsAValueInTheFirstRangeThatHoldsIt) {
  Small histogram;
  for (const double value : {0.0, 1.0, 1.5, 2.0, 2.001, 4.0, 4.001, 1e9}) histogram.add(value);
  EXPECT_EQ(counts_of(histogram), (std::vector<std::uint64_t>{2, 2, 2, 2}));
  EXPECT_EQ(histogram.count(), 8U);
  EXPECT_DOUBLE_EQ(histogram.sum(), 0 + 1 + 1.5 + 2 + 2.001 + 4 + 4.001 + 1e9);
}

TEST(Histogram, TakesValuesThatAreNoTimesAsZero) {
  Small histogram;
  for (const double value : {-5.0, std::nan("")}) histogram.add(value);
  EXPECT_EQ(counts_of(histogram), (std::vector<std::uint64_t>{2, 0, 0, 0}));
  EXPECT_EQ(histogram.sum(), 0);
}

TEST(Histogram, ACopyStaysAsItWas) {
  Small histogram;
  histogram.add(3);
  const Small before = histogram;
  histogram.add(3);
  EXPECT_EQ(before.count(), 1U);
  EXPECT_EQ(histogram.count(), 2U);
}

template <typename Times>
void expect_counts_as_a_scan_does() {
  std::mt19937_64 random(test_seed());
  std::lognormal_distribution<double> values(0, 6);
  Times histogram;
  std::vector<std::uint64_t> naive(Times::bounds().size() + 1);
  for (int i = 0; i < 10'000; ++i) {
    // Every fourth value is a bound.
    const double value = i % 4 == 0 ? Times::bounds()[random() % Times::bounds().size()] : values(random);
    histogram.add(value);
    std::size_t range = 0;
    while (range < Times::bounds().size() && value > Times::bounds()[range]) ++range;
    ++naive[range];
  }
  EXPECT_TRUE(std::ranges::equal(histogram.counts(), naive));
  EXPECT_TRUE(std::ranges::is_sorted(Times::bounds()));
}

TEST(Histogram, CountsAsAScanDoes) {
  expect_counts_as_a_scan_does<StepTimes>();
  expect_counts_as_a_scan_does<IdleTimes>();
}

}  // namespace
}  // namespace kvkeep
