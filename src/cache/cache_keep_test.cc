// Prompts that a request asked to keep for a time, in a tier through which everything else passes.

#include <gtest/gtest.h>

#include <cstdint>

#include "cache/cache_test_fixture.h"

namespace kvkeep::cache {
namespace {

// Stores others until they would have evicted everything twice; returns the tokens left of `tokens`.
std::size_t left_after_others(World& world, const Tokens& tokens) {
  for (TokenId i = 2; i < 40; ++i) {
    world.grow(conversation(i * 100, 64));
    world.writer.run_all();
  }
  return world.check(tokens);
}
constexpr std::int64_t kMinuteNs = 60'000'000'000;

TEST(CacheKeep, AKeptPathLeavesLastUntilItsTime) {
  World world(ByteCount{0}, ByteCount{24 * 8192});
  ASSERT_TRUE(world.open());
  const Tokens kept = conversation(1, 64);
  world.grow(kept);
  world.cache->keep(world.cache->track(kept), 30 * kMinuteNs);
  EXPECT_EQ(left_after_others(world, kept), 64U);
  world.clock.advance_ms(29 * 60'000);
  EXPECT_EQ(left_after_others(world, kept), 64U);
  ASSERT_TRUE(world.restart());
  EXPECT_EQ(left_after_others(world, kept), 64U) << "a file's time tells it after a restart";
  world.clock.advance_ms(24 * 60 * 60'000);
  EXPECT_EQ(left_after_others(world, kept), 0U) << "and not for ever";
}

TEST(CacheKeep, AShorterTimeDoesNotTakeBackALongerOneAndUseDoesNotEither) {
  World world(ByteCount{0}, ByteCount{24 * 8192});
  ASSERT_TRUE(world.open());
  const Tokens kept = conversation(1, 64);
  world.grow(kept);
  world.writer.run_all();
  world.cache->keep(world.cache->track(kept), 60 * kMinuteNs);
  world.cache->keep(world.cache->track(kept), kMinuteNs);
  world.cache->note_use(*world.cache->lease(kept));
  world.writer.run_all();
  world.clock.advance_ms(30 * 60'000);
  EXPECT_EQ(left_after_others(world, kept), 64U);
  ASSERT_TRUE(world.restart());
  EXPECT_EQ(left_after_others(world, kept), 64U);
}

TEST(CacheKeep, KeptPathsLeaveRoomForOthers) {
  World world(ByteCount{0}, ByteCount{24 * 8192});
  ASSERT_TRUE(world.open());
  for (TokenId i = 50; i < 90; ++i) {  // all of the tier several times over
    const Tokens tokens = conversation(i * 100, 64);
    world.grow(tokens);
    world.cache->keep(world.cache->track(tokens), 30 * kMinuteNs);
    world.writer.run_all();
  }
  const Tokens other = conversation(1, 64);
  for (TokenId i = 0; i < 20; ++i) {  // in use, it is worth more than prompts kept beyond the half
    world.grow(other);
    world.cache->note_use(*world.cache->lease(other));
    world.writer.run_all();
  }
  world.grow(conversation(9'900, 64));
  world.writer.run_all();
  EXPECT_EQ(world.check(other), 64U);
}

// Looks up the least recently used one once the next start knows it, or not.
std::size_t left_after_a_start_with_less(bool kept_first) {
  World world(ByteCount{0}, ByteCount{200 * 8192});
  EXPECT_TRUE(world.open());
  const Tokens oldest = conversation(1, 64);
  world.grow(oldest);
  for (TokenId i = 2; i < 20; ++i) {
    world.clock.advance_ms(60'000);
    world.grow(conversation(i * 100, 64));
    world.writer.run_all();
  }
  world.die();
  world.files.kill();
  world.disk_budget = ByteCount{24 * 8192};
  world.before_settling = [&] {
    world.writer.run_all();  // nothing leaves before
    if (kept_first) world.cache->keep(world.cache->track(oldest), 30 * kMinuteNs);
  };
  EXPECT_TRUE(world.open());
  EXPECT_LE(world.store->used(), world.store->budget());
  return world.check(oldest);
}

TEST(CacheKeep, APathKeptBeforeAStartSettlesStaysInASmallerBudget) {
  EXPECT_EQ(left_after_a_start_with_less(true), 64U);
  EXPECT_EQ(left_after_a_start_with_less(false), 0U);
}

}  // namespace
}  // namespace kvkeep::cache
