// Points, whole states and windows may take a share of the disk and no more; rows make no room for them.

#include "cache/cache_test_fixture.h"

namespace kvkeep::cache {
namespace {

class PointsShare : public testing::TestWithParam<ModelClass> {
 protected:
  void open(std::uint32_t percent) {
    world.model = GetParam();
    world.disk_points_share = percent;
    ASSERT_TRUE(world.open());
  }
  void fill() {
    for (TokenId i = 0; i < 30; ++i) {
      world.clock.advance_ms(60'000);
      const Tokens tokens = conversation(100 + i * 10, 64);
      ASSERT_TRUE(world.keep(tokens, 64));
      world.writer.run_all();
      ASSERT_LE(world.cache->stats().points_disk.value(), world.disk_budget.value() / 100 * world.disk_points_share);
    }
  }
  std::size_t restorable_count() {
    std::size_t count = 0;
    for (TokenId i = 0; i < 30; ++i) count += world.restorable(conversation(100 + i * 10, 64)).empty() ? 0 : 1;
    return count;
  }
  World world{ByteCount{0}, ByteCount{200 * 12288}};
};

TEST_P(PointsShare, TheyLeaveBeyondItAndRowsStay) {
  open(4);  // of 30 that there is room for, eight or so
  fill();
  EXPECT_GT(world.cache->stats().from_disk.count(), 0U);
  EXPECT_GT(restorable_count(), 2U);
  EXPECT_LT(restorable_count(), 15U);
  for (TokenId i = 0; i < 30; ++i) EXPECT_EQ(world.cache->lease(conversation(100 + i * 10, 64))->end(), Position{64});
  EXPECT_FALSE(world.restorable(conversation(100 + 29 * 10, 64)).empty()) << "the newest is there";
}

TEST_P(PointsShare, AllOfTheDiskIsNoLimit) {
  open(100);
  fill();
  EXPECT_EQ(restorable_count(), 30U);
  EXPECT_EQ(world.cache->stats().from_disk.count(), 0U);
}

TEST_P(PointsShare, WithNoneOnlyRowsAreStored) {
  open(0);
  fill();
  EXPECT_EQ(world.cache->stats().points_disk, ByteCount{});
  EXPECT_GT(world.cache->stats().disk_refused, 0U);
  EXPECT_EQ(world.segment_files().size(), 30U);
}

TEST_P(PointsShare, ASmallerOneHoldsFromTheStart) {
  open(100);
  fill();
  world.disk_points_share = 4;
  ASSERT_TRUE(world.restart());
  EXPECT_LE(world.cache->stats().points_disk.value(), world.disk_budget.value() / 100 * 4);
  EXPECT_GT(restorable_count(), 2U);
  EXPECT_EQ(world.cache->lease(conversation(100, 64))->end(), Position{64}) << "rows stay";
}

INSTANTIATE_TEST_SUITE_P(Models, PointsShare, testing::Values(kHybridModel, kWindowedModel, kOpaqueModel),
                         [](const auto& model) { return std::string(model.param.name); });

}  // namespace
}  // namespace kvkeep::cache
