// Segments that are damaged or that the device refuses to read.

#include "cache/cache_test_fixture.h"

namespace kvkeep::cache {
namespace {

TEST(CacheDamage, DamagedSegmentIsAMissAndIsStoredAgain) {
  World world(ByteCount{0});
  ASSERT_TRUE(world.open());
  const Tokens tokens = conversation(10, 64);
  world.grow(tokens);
  world.writer.run_all();
  std::size_t damaged = 0;
  for (const std::string& path : world.files.paths()) {
    if (!path.ends_with(".kvs")) continue;
    std::vector<std::byte> bytes = *world.files.contents(path);
    if (damaged++ == 1) {
      bytes.back() ^= std::byte{1};
      world.files.plant(path, bytes);
    }
  }
  ASSERT_EQ(damaged, 4U);
  const std::size_t left = world.check(tokens);
  EXPECT_LT(left, 64U);
  EXPECT_EQ(left % 16, 0U);
  EXPECT_EQ(world.cache->stats().damaged, 1U);
  EXPECT_EQ(world.grow(tokens), 64U) << "the lost part can be stored again";
  world.writer.run_all();
  EXPECT_EQ(world.check(tokens), 64U);
}

TEST(CacheDamage, ForgottenPathOfARunningSequenceIsNotExtended) {
  World world(ByteCount{0});
  ASSERT_TRUE(world.open());
  const Tokens tokens = conversation(10, 64);
  world.grow(tokens);
  world.writer.run_all();
  Track running = world.cache->track(tokens);
  world.cache->report_damaged(world.cache->lease(tokens)->steps()[1].segment);
  EXPECT_EQ(world.check(tokens), 16U);
  const Tokens next = conversation(90, 8);
  EXPECT_FALSE(world.cache->store(running, next, world.cache->staging(8 * kRowBytes), 8 * kRowBytes));
  running = world.cache->track(Tokens{});
  EXPECT_EQ(world.grow(tokens), 64U) << "when the last holder lets go, the place is free again";
}

TEST(CacheDamage, FilesOfForgottenSegmentsLeaveTheDisk) {
  World world(ByteCount{0});
  ASSERT_TRUE(world.open());
  const Tokens tokens = conversation(10, 64);
  world.grow(tokens);
  world.writer.run_all();
  const ByteCount before = world.store->used();
  world.cache->report_damaged(world.cache->lease(tokens)->steps()[1].segment);
  world.writer.run_all();
  EXPECT_LT(world.store->used(), before) << "the damaged segment and what hung below it";
  world.die();
  world.files.kill();
  ASSERT_TRUE(world.open());
  EXPECT_EQ(world.check(tokens), 16U);
}

TEST(CacheDamage, AHeldForgottenPathIsFollowedAsFarAsItLives) {
  World world(ByteCount{0});
  ASSERT_TRUE(world.open());
  const Tokens tokens = conversation(10, 64);
  world.grow(tokens);
  world.writer.run_all();
  const std::optional<Track> running(world.cache->track(tokens));
  world.cache->report_damaged(world.cache->lease(tokens)->steps()[2].segment);
  Track track = world.cache->track(tokens);
  EXPECT_EQ(track.position(), Position{32});
  EXPECT_FALSE(world.cache->follow(track, TokenSpan(tokens).subspan(32)));
  const Tokens other = conversation(90, 16);
  EXPECT_TRUE(world.cache->follow(track, other)) << "the path leaves the trie before the damage";
  EXPECT_EQ(world.grow(Tokens(tokens.begin(), tokens.begin() + 32) + other), 48U);
}

TEST(CacheDamage, ATrackInsideAForgottenSegmentStaysWhereItIs) {
  World world(ByteCount{0});
  ASSERT_TRUE(world.open());
  const Tokens tokens = conversation(10, 64);
  world.grow(tokens);
  world.writer.run_all();
  Track track = world.cache->track(head(tokens, 24));
  ASSERT_EQ(track.position(), Position{24});
  world.cache->report_damaged(world.cache->lease(tokens)->steps()[1].segment);
  EXPECT_FALSE(world.cache->follow(track, TokenSpan(tokens).subspan(24)));
  EXPECT_EQ(track.position(), Position{24}) << "the segment that it ends in is forgotten, and so is what comes";
  track = world.cache->track(Tokens{});
  EXPECT_EQ(world.grow(tokens), 64U);
}

TEST(CacheDamage, ADeviceThatRefusesOnceIsAskedAgain) {
  World world(ByteCount{0});
  ASSERT_TRUE(world.open());
  const Tokens tokens = conversation(10, 64);
  world.grow(tokens);
  world.writer.run_all();
  world.files.set_plan({FaultKind::kFailOnce, 1});
  EXPECT_EQ(world.check(tokens), 64U);
  EXPECT_TRUE(world.files.fault_fired());
  EXPECT_EQ(world.cache->stats().damaged, 0U);
}

TEST(CacheDamage, ADeviceThatGoesOnRefusingIsAbandoned) {
  World world(ByteCount{0});
  ASSERT_TRUE(world.open());
  const Tokens tokens = conversation(10, 64);
  world.grow(tokens);
  world.writer.run_all();
  world.files.set_plan({FaultKind::kFailForever, 1});
  EXPECT_EQ(world.check(tokens), 0U);
  EXPECT_EQ(world.cache->stats().damaged, 1U);
  world.files.heal();
  EXPECT_EQ(world.grow(tokens), 64U);
  world.writer.run_all();
  EXPECT_EQ(world.check(tokens), 64U);
}

// So many segments that nothing may call itself for each of them.
TEST(CacheDamage, AVeryLongPathIsForgottenWhenNobodyHoldsIt) {
  constexpr std::size_t kSegments = 200'000;
  World world(mebibytes(8));
  world.model = kRecurrentModel;
  world.open_without_disk();
  const Tokens tokens = conversation(10, kSegments);
  std::optional<Track> running(world.cache->track({}));
  for (std::size_t i = 0; i < kSegments; ++i) {
    ASSERT_TRUE(world.cache->store(*running, TokenSpan(tokens).subspan(i, 1), world.cache->staging(0), 0));
  }
  world.writer.run_all();
  ASSERT_EQ(world.cache->lease(tokens)->steps().size(), kSegments);
  world.cache->report_damaged(world.cache->lease(tokens)->steps().front().segment);
  EXPECT_EQ(world.cache->stats().segments, kSegments);
  EXPECT_EQ(world.cache->lease(tokens)->end(), Position{});
  running.reset();
  EXPECT_EQ(world.cache->stats().segments, 0U);
}

// While a parent is written its child dies, and what comes in its place has its number, but a parent that still waits.
TEST(CacheDamage, ASegmentWithAForgottenOnesIdIsNotWrittenInItsPlace) {
  World world;
  world.save_index_after = SIZE_MAX;
  ASSERT_TRUE(world.open());
  const Tokens first = conversation(10, 32);
  const Tokens second = conversation(100, 32);
  ASSERT_EQ(world.grow(first), 32U);
  ASSERT_EQ(world.grow(head(second, 16)), 16U);
  world.files.set_plan({FaultKind::kFailOnce, 1});
  ASSERT_TRUE(world.writer.run_one());
  ASSERT_TRUE(world.files.fault_fired());
  world.files.set_observer([&, done = false]() mutable {
    if (std::exchange(done, true)) return;
    const SegmentId child = world.cache->lease(first)->steps()[1].segment;
    world.cache->report_damaged(child);
    ASSERT_EQ(world.grow(second), 32U);
    ASSERT_EQ(world.cache->lease(second)->steps()[1].segment, child);
  });
  ASSERT_TRUE(world.writer.run_one());  // of the child, which takes its parent along
  world.files.set_observer(nullptr);
  EXPECT_EQ(world.segment_files().size(), 1U) << "only the parent of the damaged one";
  world.writer.run_all();
  ASSERT_TRUE(world.restart());
  EXPECT_EQ(world.check(first), 16U);
  EXPECT_EQ(world.check(second), 32U);
}

}  // namespace
}  // namespace kvkeep::cache
