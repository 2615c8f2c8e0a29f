// The end of a conversation leaves every tier when somebody asks; beginnings that others share stay.

#include "cache/cache_test_fixture.h"

namespace kvkeep::cache {
namespace {

TEST(CacheForget, AllOfAPathThatIsNobodyElses) {
  for (const ModelClass& model : kClasses) {
    SCOPED_TRACE(model.name);
    World world(mebibytes(4));
    world.model = model;
    ASSERT_TRUE(world.open());
    const Tokens tokens = conversation(10, 100);
    const auto store = [&] {
      EXPECT_EQ(world.grow(tokens), 100U);
      EXPECT_TRUE(!model.shape.needs_points() || world.capture_leaf(tokens));
      world.writer.run_all();
    };
    store();
    EXPECT_EQ(world.cache->forget(tokens).value(), Position{});
    EXPECT_EQ(world.cache->lease(tokens)->steps().size(), 0U);
    world.writer.run_all();
    EXPECT_EQ(world.cache->stats().segments, 0U);
    EXPECT_EQ(world.segment_files().size(), 0U);
    EXPECT_EQ(world.cache->forget(tokens).value(), Position{}) << "there is nothing any more";
    store();
    EXPECT_EQ(world.check(tokens), 100U) << "stored anew";
  }
}

TEST(CacheForget, SharedBeginningsStay) {
  World world;
  ASSERT_TRUE(world.open());
  const Tokens one = conversation(10, 100);
  const Tokens two = conversation(10, 50) + conversation(40, 60);
  const Tokens longer = two + conversation(90, 30);
  for (const Tokens& tokens : {one, two, longer}) (void)world.grow(tokens);
  world.writer.run_all();
  EXPECT_EQ(world.cache->forget(two).value(), Position{} + 110) << "a longer one goes on from it";
  EXPECT_EQ(world.cache->forget(longer).value(), Position{} + 50);
  EXPECT_EQ(world.check(one), 100U);
  EXPECT_EQ(world.check(longer), 50U);
}

TEST(CacheForget, NotWhileSomebodyHoldsIt) {
  World world;
  ASSERT_TRUE(world.open());
  const Tokens tokens = conversation(10, 100);
  (void)world.grow(tokens);
  {
    const auto lease = world.cache->lease(tokens);
    EXPECT_EQ(world.cache->forget(tokens).value(), Position{} + 100);
  }
  EXPECT_EQ(world.cache->forget(tokens).value(), Position{});
  EXPECT_EQ(world.check(tokens), 0U);
}

}  // namespace
}  // namespace kvkeep::cache
