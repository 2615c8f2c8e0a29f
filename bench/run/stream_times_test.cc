#include "bench/run/stream_times.h"

#include <gtest/gtest.h>

namespace kvkeep::bench {
namespace {

constexpr std::int64_t kMs = 1'000'000;

// A piece of two bytes, one token, in each `every_ms`.
StreamTimes steady(std::int64_t from_ms, std::int64_t every_ms, std::size_t count) {
  StreamTimes stream{.pieces = {}, .tokens = count};
  for (std::size_t i = 0; i < count; ++i) {
    stream.pieces.push_back({(from_ms + static_cast<std::int64_t>(i) * every_ms) * kMs, 2 * (i + 1)});
  }
  return stream;
}

TEST(RateTogether, CountsWhileAllRun) {
  // From 100 ms, when the second begins, to 990 ms, when the first ends.
  const auto rate = rate_together({steady(0, 10, 100), steady(100, 10, 200)});
  ASSERT_TRUE(rate);
  EXPECT_NEAR(*rate, 200, 0.5);
}

TEST(RateTogether, IsUnknownIfTheyDoNotOverlap) {
  EXPECT_FALSE(rate_together({steady(0, 10, 10), steady(90, 10, 10)}));
  EXPECT_FALSE(rate_together({steady(0, 10, 10), steady(0, 10, 1)}));
  EXPECT_FALSE(rate_together({}));
}

TEST(GapsMs, AreThoseThatAReaderSawMeanwhile) {
  const std::vector<Piece> pieces = {{0, 1}, {10 * kMs, 2}, {40 * kMs, 3}, {45 * kMs, 4}, {90 * kMs, 5}};
  EXPECT_EQ(gaps_ms(pieces, 20 * kMs, 50 * kMs), (std::vector<double>{30, 5, 45})) << "the first and last reach out";
  EXPECT_EQ(gaps_ms(pieces, 80 * kMs, 120 * kMs), (std::vector<double>{45, 30})) << "silence at the end";
  EXPECT_EQ(gaps_ms({}, 0, kMs), std::vector<double>());
}

TEST(Percentile, IsTheNearestRank) {
  EXPECT_EQ(percentile({3, 1, 2, 4}, 0.5), 2);
  EXPECT_EQ(percentile({3, 1, 2, 4}, 0.99), 4);
  EXPECT_EQ(percentile({3, 1, 2, 4}, 0), 1);
}

}  // namespace
}  // namespace kvkeep::bench
