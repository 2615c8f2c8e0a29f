// A disk that is full or too slow: the newest segments wait in RAM, requests go on, and written paths have no hole.

#include "cache/cache_test_fixture.h"

namespace kvkeep::cache {
namespace {

constexpr ByteCount kReserve{64 << 10};

class CacheOnAFullDisk : public testing::TestWithParam<bool> {
 protected:
  // Full for lack of the reserve, or because the disk itself says so.
  void SetUp() override {
    if (GetParam()) world.reserve = kReserve;
    ASSERT_TRUE(world.open());
  }
  void leave_free(ByteCount more) {
    world.files.set_free(world.reserve + more);
    world.clock.advance_ms(64'000);
  }
  World world;
  const Tokens a = conversation(100, 160);
  const Tokens b = conversation(200, 64);
};

TEST_P(CacheOnAFullDisk, RamGoesOnAndWhatWaitedIsStoredWhenThereIsRoom) {
  const Tokens before = conversation(300, 64);
  world.grow(before);
  world.writer.run_all();
  leave_free(ByteCount{8192});
  EXPECT_EQ(world.grow(a), 160U);
  world.writer.run_all();
  EXPECT_EQ(world.grow(a + b), 224U);
  world.writer.run_all();
  EXPECT_EQ(world.check(a + b), 224U);
  CacheStats stats = world.cache->stats();
  EXPECT_TRUE(stats.disk_stopped);
  EXPECT_EQ(stats.disk_stops, 1U);
  EXPECT_EQ(stats.from_disk.count(), 0U) << "what is there gives no room";
  leave_free(mebibytes(4));
  world.cache->tick();
  world.writer.run_all();
  stats = world.cache->stats();
  EXPECT_FALSE(stats.disk_stopped);
  EXPECT_EQ(stats.disk_stops, 1U);
  ASSERT_TRUE(world.restart());
  EXPECT_EQ(world.check(a + b), 224U);
  EXPECT_EQ(world.check(before), 64U);
}

TEST_P(CacheOnAFullDisk, EvictionFromRamLeavesNoHoleOnTheFullDisk) {
  leave_free(ByteCount{4 * 8192});
  EXPECT_EQ(world.grow(a), 160U);
  world.writer.run_all();
  for (TokenId i = 10; i < 400; ++i) {
    ASSERT_EQ(world.grow(conversation(i * 100, 64)), 64U) << "RAM takes what comes";
    world.writer.run_all();
    ASSERT_LE(world.cache->stats().ram_used, mebibytes(1));
  }
  leave_free(mebibytes(32));
  EXPECT_EQ(world.grow(a + b), 224U);
  world.writer.run_all();
  ASSERT_TRUE(world.restart());
  EXPECT_EQ(world.check(a + b), 224U);
}

INSTANTIATE_TEST_SUITE_P(Causes, CacheOnAFullDisk, testing::Bool(),
                         [](const auto& cause) { return cause.param ? "Reserve" : "NoSpace"; });

// A writer that runs when the test says so.
class CacheWithALaggingDisk : public testing::Test {
 protected:
  void SetUp() override {
    world.write_queue = ByteCount{100 * kRowBytes};
    ASSERT_TRUE(world.open());
  }
  World world;
  const Tokens tokens = conversation(1, 640);
};

TEST_F(CacheWithALaggingDisk, TheNewestWaitOutsideTheQueueAndEnterItInTheirOrder) {
  EXPECT_EQ(world.grow(tokens), 640U) << "nothing is refused while RAM has room";
  const std::uint64_t queued = world.cache->stats().waiting_writes;
  EXPECT_EQ(queued, 6U) << "of 16 tokens each";
  EXPECT_EQ(world.cache->stats().held_back, 34U);
  std::size_t before = 0;
  while (world.writer.run_one()) {
    ASSERT_LE(world.cache->stats().waiting_writes, queued);
    const std::size_t files = world.segment_files().size();
    ASSERT_GE(files, before);
    before = files;
  }
  EXPECT_EQ(before, 40U);
  ASSERT_TRUE(world.restart());
  EXPECT_EQ(world.check(tokens), 640U);
}

TEST(CacheWaiting, NoMoreIsRememberedThanMayWait) {
  World world;
  world.write_queue = ByteCount{100 * kRowBytes};
  world.most_waiting = 8;
  ASSERT_TRUE(world.open());
  const Tokens tokens = conversation(1, 640);
  EXPECT_EQ(world.grow(tokens), 640U);
  EXPECT_EQ(world.cache->stats().held_back, 34U);
  EXPECT_EQ(world.cache->stats().remembered, 8U) << "the newest";
  world.cache->flush();
  ASSERT_TRUE(world.restart());
  EXPECT_EQ(world.check(tokens), 640U) << "the rest was written with what continues it";
}

TEST_F(CacheWithALaggingDisk, AKilledProcessLeavesABeginning) {
  for (std::size_t turns = 0; turns < 45; turns += 3) {
    World killed;
    killed.write_queue = ByteCount{100 * kRowBytes};
    ASSERT_TRUE(killed.open());
    const Tokens other = head(tokens, 320) + conversation(50, 320);
    EXPECT_EQ(killed.grow(tokens), 640U);
    EXPECT_EQ(killed.grow(other), 640U);
    for (std::size_t i = 0; i < turns; ++i) ASSERT_TRUE(killed.writer.run_one());
    const std::size_t files = killed.segment_files().size();
    ASSERT_TRUE(killed.restart());
    EXPECT_EQ(killed.segment_files().size(), files) << "nothing hangs below what was not written";
    EXPECT_EQ(killed.cache->stats().segments, files);
    EXPECT_EQ(killed.check(tokens) + killed.check(other), 16 * files + std::min<std::size_t>(16 * files, 320));
  }
}

TEST_F(CacheWithALaggingDisk, ASegmentTakesTheWaitingOneThatItContinuesAlong) {
  EXPECT_EQ(world.grow(tokens), 640U);
  while (world.cache->stats().waiting_writes > 3) world.writer.run_one();
  const Tokens longer = tokens + conversation(70, 16);
  EXPECT_EQ(world.grow(longer), 656U);
  world.cache->flush();
  ASSERT_TRUE(world.restart());
  EXPECT_EQ(world.check(longer), 656U);
}

TEST_F(CacheWithALaggingDisk, WaitingSegmentsEvictedFromRamLeaveNoHole) {
  for (TokenId i = 1; i < 400; ++i) {
    ASSERT_EQ(world.grow(conversation(i * 100, 64)), 64U);
    world.writer.run_one();
  }
  EXPECT_GT(world.cache->stats().from_ram.count(), 0U);
  EXPECT_EQ(world.cache->stats().refused, 0U);
  world.cache->flush();
  const std::size_t files = world.segment_files().size();
  EXPECT_GT(files, 0U);
  ASSERT_TRUE(world.restart());
  EXPECT_EQ(world.cache->stats().segments, files);
  EXPECT_EQ(world.store->counters().removed, 0U) << "no orphan was found";
}

// ---- how many files there are ----

TEST(CacheFiles, NoMoreAreStoredThanAStartWouldServe) {
  World world;
  world.most_files = 12;
  ASSERT_TRUE(world.open());
  for (TokenId i = 1; i <= 40; ++i) {
    world.clock.advance_ms(60'000);
    const Tokens tokens = conversation(i * 100, 32);
    ASSERT_EQ(world.grow(tokens), 32U);
    world.writer.run_all();
    ASSERT_LE(world.segment_files().size(), 12U);
  }
  EXPECT_EQ(world.cache->stats().disk_refused, 0U);
  ASSERT_TRUE(world.restart());
  EXPECT_EQ(world.check(conversation(40 * 100, 32)), 32U) << "the newest";
  EXPECT_EQ(world.store->foreign_bytes(), ByteCount{});
}

}  // namespace
}  // namespace kvkeep::cache
