// Window rows: any position whose last window is stored can be reached, whatever cuts the windows were captured at, and
// nothing is stored twice.

#include "cache/cache_test_fixture.h"

namespace kvkeep::cache {
namespace {

TEST(CacheWindows, EveryPositionWhoseLastWindowIsStoredCanBeReached) {
  World world;
  world.model = kWindowedModel;
  ASSERT_TRUE(world.open());
  const Tokens tokens = conversation(10, 100);
  ASSERT_EQ(world.grow(tokens), 100U);
  for (const std::size_t at : {10U, 60U, 70U, 100U}) ASSERT_TRUE(world.capture_leaf(head(tokens, at)));
  // Stored: [0, 10), [36, 60), [46, 70) and [76, 100).
  std::vector<std::size_t> expected = range_of(1, 10);
  for (const std::size_t at : range_of(60, 70)) expected.push_back(at);
  expected.push_back(100);
  EXPECT_EQ(world.restorable(tokens), expected);
  world.writer.run_all();
  ASSERT_TRUE(world.restart());
  EXPECT_EQ(world.restorable(tokens), expected);
}

TEST(CacheWindows, OverlappingWindowsAreStoredOnce) {
  World world;
  world.model = kWindowedModel;
  ASSERT_TRUE(world.open());
  const Tokens tokens = conversation(10, 128);
  std::size_t copied = 0;
  for (std::size_t end = 8; end <= 128; end += 8) {
    ASSERT_EQ(world.grow(head(tokens, end)), end);
    OneSequence memory(head(tokens, end), kWindowedModel);
    ASSERT_TRUE(capture_point(*world.cache, memory, SeqId{0}, head(tokens, end), world.cache->track(head(tokens, end)))
                    .complete);
    copied += memory.window_copied();
  }
  EXPECT_EQ(copied, 128U);
  EXPECT_EQ(world.cache->stats().points_ram, ByteCount{128 * kWindowRowBytes});
  EXPECT_EQ(world.restorable(tokens), range_of(1, 128));
}

// The window of a branch begins in the trunk's segment, and a trunk's window goes on where the branch does not.
TEST(CacheWindows, ABranchUsesOnlyItsShareOfAWindow) {
  World world;
  world.model = kWindowedModel;
  ASSERT_TRUE(world.open());
  const Tokens trunk = conversation(10, 64);
  const Tokens branch = head(trunk, 50) + conversation(40, 30);
  ASSERT_TRUE(world.keep(trunk, 64));  // [40, 64)
  ASSERT_EQ(world.grow(branch), 80U);
  EXPECT_EQ(world.restorable(branch), std::vector<std::size_t>{});
  ASSERT_TRUE(world.capture_leaf(head(branch, 60)));  // [36, 40) and [50, 60)
  const auto expected = range_of(60, 60);
  EXPECT_EQ(world.restorable(branch), expected);
  EXPECT_EQ(world.restorable(trunk), range_of(60, 64)) << "what the branch needed below is the trunk's as well";
  world.writer.run_all();
  ASSERT_TRUE(world.restart());
  EXPECT_EQ(world.restorable(branch), expected);
}

// As a limit of points does. A window leaves whole or not at all.
TEST(CacheWindows, AWindowIsForgottenUnlessAnotherGoesOnWhereItEnds) {
  World world;
  world.model = kWindowedModel;
  ASSERT_TRUE(world.open());
  const Tokens trunk = conversation(10, 120);
  ASSERT_EQ(world.grow(trunk, 50), 120U);
  const Tokens inside = head(trunk, 90) + conversation(40, 8);  // leaves the second window in its middle
  const Tokens at_end = head(trunk, 50) + conversation(70, 8);  // goes on where the first one ends, as a segment does
  for (const std::size_t at : {50U, 95U, 120U}) ASSERT_TRUE(world.capture_leaf(head(trunk, at)));
  for (const Tokens& branch : {inside, at_end}) ASSERT_TRUE(world.keep(branch));
  world.cache->forget_points(trunk, {Position{50}, Position{95}, Position{120}});
  EXPECT_EQ(world.restorable(inside), (std::vector<std::size_t>{50, 95, 96, 97, 98}));
  EXPECT_EQ(world.restorable(at_end), range_of(50, 58));
  EXPECT_EQ(world.restorable(trunk), (std::vector<std::size_t>{50, 95}))
      << "the others need these, and nobody the last";
  world.cache->forget_points(inside, {Position{98}});
  world.cache->forget_points(trunk, {Position{95}, Position{50}});
  EXPECT_EQ(world.restorable(trunk), std::vector<std::size_t>{50});
  EXPECT_EQ(world.restorable(at_end), range_of(50, 58));
  world.cache->forget_points(at_end, {Position{58}, Position{50}});
  EXPECT_EQ(world.restorable(trunk), std::vector<std::size_t>{});
  EXPECT_EQ(world.restorable(at_end), std::vector<std::size_t>{});
}

// Rows that were lost and came back with other cuts: the rest of their windows ends where a segment does that is listed
// after it.
TEST(CacheWindows, AWindowThatReachesOverTheBeginningOfASegmentIsNoneOfIt) {
  const Tokens tokens = conversation(10, 48);
  World before;
  before.model = kWindowedModel;
  ASSERT_TRUE(before.open());
  ASSERT_TRUE(before.keep(tokens, 48));  // with [24, 48)
  before.writer.run_all();
  std::vector<std::string> left = before.segment_files();
  ASSERT_EQ(left.size(), 2U);
  World world;
  world.model = kWindowedModel;
  ASSERT_TRUE(world.open());
  ASSERT_EQ(world.grow(tokens, 32), 48U);  // [0, 32) and [32, 48)
  world.writer.run_all();
  std::erase_if(left, [](const std::string& path) { return !path.ends_with(".window.kvs"); });
  for (const std::string& path : left) world.files.plant(path, *before.files.contents(path));
  ASSERT_TRUE(world.restart());
  EXPECT_EQ(world.check(tokens), 48U);
  EXPECT_EQ(world.restorable(tokens), std::vector<std::size_t>{});
  EXPECT_EQ(world.segment_files().size(), 2U) << "it cannot be restored";
}

TEST(CacheWindows, NothingOfAWindowIsTakenIfItDoesNotFit) {
  World world(ByteCount{64 * kRowBytes + 20 * kWindowRowBytes});
  world.model = kWindowedModel;
  world.open_without_disk();
  const Tokens tokens = conversation(10, 64);
  ASSERT_EQ(world.grow(tokens), 64U);
  OneSequence memory(tokens, kWindowedModel);
  const Track held = world.cache->track(tokens);
  EXPECT_FALSE(capture_point(*world.cache, memory, SeqId{0}, tokens, held).complete);
  EXPECT_EQ(memory.window_copied(), 0U);
  EXPECT_EQ(world.cache->stats().points, 0U);
}

}  // namespace
}  // namespace kvkeep::cache
