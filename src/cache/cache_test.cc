// The cache over a simulated disk: it returns exactly what was stored for a prefix, whatever was evicted, damaged,
// interrupted or lost; and it works again when the faults stop.

#include "cache/cache_test_fixture.h"

namespace kvkeep::cache {
namespace {

TEST(Cache, GivesBackWhatWasStoredFromRamThenFromDiskThenAfterARestart) {
  World world(ByteCount{0});
  ASSERT_TRUE(world.open());
  const Tokens trunk = conversation(10, 100);
  const Tokens branch = conversation(10, 50) + conversation(40, 60);
  EXPECT_EQ(world.grow(trunk), 100U);
  EXPECT_EQ(world.check(trunk), 100U);
  EXPECT_EQ(world.cache->lease(trunk)->steps().front().tier, Tier::kRam);
  world.writer.run_all();
  EXPECT_EQ(world.cache->lease(trunk)->steps().front().tier, Tier::kDisk) << "RAM budget 0 keeps nothing written";
  EXPECT_EQ(world.check(branch), 50U) << "a prompt that leaves the path in the middle of a segment";
  EXPECT_EQ(world.grow(branch), 110U);
  world.writer.run_all();
  world.cache->flush();
  world.die();
  world.files.power_cut();
  ASSERT_TRUE(world.open());
  EXPECT_EQ(world.check(trunk), 100U);
  EXPECT_EQ(world.check(branch), 110U);
  EXPECT_EQ(world.cache->stats().tokens, 160U) << "a shared prefix is stored once";
}

TEST(Cache, WritesNewRowsOnce) {
  World world;
  ASSERT_TRUE(world.open());
  Tokens tokens = conversation(10, 64);
  for (int turn = 0; turn < 12; ++turn) {
    EXPECT_EQ(world.grow(tokens), tokens.size());
    world.writer.run_all();
    tokens = tokens + conversation(100 + turn * 10, 40);
  }
  const auto counters = world.store->counters();
  EXPECT_EQ(counters.payload_bytes_written, (64 + 11 * 40) * kRowBytes);
}

TEST(Cache, ShortConversationsGetNoFileUntilTheyGrow) {
  World world;
  ASSERT_TRUE(world.open());
  const Tokens tokens = conversation(10, 20);
  const Tokens head(tokens.begin(), tokens.begin() + 4);
  world.grow(head);
  world.writer.run_all();
  EXPECT_EQ(world.store->counters().puts, 0U);
  world.grow(tokens);
  world.writer.run_all();
  world.die();
  world.files.power_cut();
  ASSERT_TRUE(world.open());
  EXPECT_EQ(world.check(tokens), 20U) << "the short head is written when something continues it";
}

TEST(Cache, WithoutAnyTierNothingIsAccepted) {
  World world(ByteCount{0});
  world.open_without_disk();
  EXPECT_FALSE(world.cache->accepts());
  EXPECT_EQ(world.grow(conversation(1, 32)), 0U);
}

TEST(Cache, WriteQueueIsBoundedAndGoesOnWhenItDrains) {
  World world(ByteCount{0});
  ASSERT_TRUE(world.open());
  constexpr std::size_t kBig = 1U << 20;
  Track track = world.cache->track(Tokens{});
  const auto store_big = [&](TokenId first) {
    if (!world.cache->make_room(kBig)) return false;
    store::StagingBuffer rows = world.cache->staging(kBig);
    std::ranges::fill(rows.span(), std::byte{7});
    return world.cache->store(track, conversation(first, 16), std::move(rows), kBig);
  };
  TokenId next = 1;
  while (next < 1000 && store_big(next)) ++next;
  EXPECT_EQ(next, 65) << "64 MiB wait for the writer, no more";
  EXPECT_LE(world.cache->stats().ram_used, kMinimumWriteQueue);
  EXPECT_FALSE(world.cache->make_room(kBig)) << "told before rows are copied for nothing";
  EXPECT_FALSE(world.cache->store(track, conversation(next, 16), world.cache->staging(kBig), kBig))
      << "also without asking first";
  world.writer.run_all();
  EXPECT_TRUE(store_big(next));
}

TEST(Cache, StoresAgainWhenADiskHeals) {
  World world(ByteCount{100 * kRowBytes});
  ASSERT_TRUE(world.open());
  world.files.set_plan({FaultKind::kFailForever, 1});
  for (TokenId i = 1; i < 50; ++i) {
    world.grow(conversation(i * 10, 64));
    world.writer.run_all();
    ASSERT_LE(world.cache->stats().ram_used.value(), 100 * kRowBytes) << "nothing is held for a disk that refuses";
  }
  world.files.heal();
  const Tokens fresh = conversation(900, 64);
  ASSERT_EQ(world.grow(fresh), 64U);
  world.writer.run_all();
  world.die();
  world.files.power_cut();
  ASSERT_TRUE(world.open());
  EXPECT_EQ(world.check(fresh), 64U);
}

TEST(Cache, IdleStagingBuffersAreAnEighthOfTheRamBudgetWithinLimits) {
  EXPECT_EQ(staging_limit(ByteCount{0}), mebibytes(16));
  EXPECT_EQ(staging_limit(mebibytes(128)), mebibytes(16));
  EXPECT_EQ(staging_limit(mebibytes(1024)), mebibytes(128));
  EXPECT_EQ(staging_limit(mebibytes(8192)), mebibytes(256));
  EXPECT_EQ(staging_limit(ByteCount{0}, mebibytes(400)), mebibytes(466)) << "and one for a point";
  World world(ByteCount{0});
  ASSERT_TRUE(world.open());
  const auto idle_after = [&](std::size_t count, std::size_t size_bytes) {
    world.cache->prepare_staging(count, size_bytes);
    world.writer.run_all();
    return world.cache->stats().staging_idle;
  };
  EXPECT_EQ(idle_after(2, 64U << 20), ByteCount{0}) << "no memory is taken at the start that may not be kept";
  EXPECT_EQ(idle_after(3, 8U << 20), mebibytes(16));
  { const auto large = world.cache->staging(64U << 20); }
  EXPECT_EQ(world.cache->stats().staging_idle, mebibytes(16)) << "nor later";
}

TEST(Cache, LoadingTellsWhatCameFromDisk) {
  World world;
  ASSERT_TRUE(world.open());
  const Tokens tokens = conversation(10, 64);
  world.grow(tokens);
  world.writer.run_all();
  const auto bytes_read = [&] {
    LoadResult result;
    world.cache->load(world.cache->lease(tokens), {Position{}, Position{64}}, [&](LoadResult r) { result = r; });
    world.reader.run_all();
    EXPECT_TRUE(result.status.ok());
    EXPECT_EQ(result.read_ms > 0, result.bytes_read > ByteCount{0});
    return result.bytes_read;
  };
  EXPECT_EQ(bytes_read(), ByteCount{0}) << "all of it was in RAM";
  ASSERT_TRUE(world.restart());
  EXPECT_EQ(bytes_read(), ByteCount{64 * kRowBytes});
  EXPECT_EQ(bytes_read(), ByteCount{0}) << "and stays there";
}

TEST(Cache, ALeaseLetsGoOfWhatWasRestored) {
  World world;
  ASSERT_TRUE(world.open());
  const Tokens tokens = conversation(10, 64);
  world.grow(tokens);
  const std::shared_ptr<Lease> lease = world.cache->lease(tokens);
  lease->release_until(Position{40});
  EXPECT_EQ(lease->steps()[0].payload, nullptr);
  EXPECT_EQ(lease->steps()[1].payload, nullptr);
  EXPECT_TRUE(lease->loaded({Position{32}, Position{64}})) << "a step that reaches beyond the place stays";
  EXPECT_EQ(lease->loaded_until(Position{0}), Position{0});
  EXPECT_EQ(lease->loaded_until(Position{32}), Position{64});
}

TEST(Cache, WrittenRowsLeaveTheirStagingBuffer) {
  World world;
  ASSERT_TRUE(world.open());
  const Tokens tokens = conversation(10, 16);
  world.grow(tokens);
  EXPECT_TRUE(world.cache->lease(tokens)->steps()[0].payload->staged());
  world.writer.run_all();
  EXPECT_FALSE(world.cache->lease(tokens)->steps()[0].payload->staged());
  EXPECT_EQ(world.cache->stats().ram_used, ByteCount{16 * kRowBytes});
  EXPECT_EQ(world.check(tokens), 16U);
}

TEST(Cache, AChildIsNotWrittenWithoutItsParent) {
  World world;
  ASSERT_TRUE(world.open());
  const Tokens tokens = conversation(10, 32);
  world.grow(tokens);
  for (int write = 0; write < 2; ++write) {  // of the parent; then of the child, which takes its parent along
    world.files.set_plan({FaultKind::kFailOnce, 1});
    EXPECT_TRUE(world.writer.run_one());
    EXPECT_TRUE(world.files.fault_fired());
  }
  EXPECT_EQ(world.segment_files().size(), 0U) << "a file whose beginning nobody has";
  const Tokens longer = tokens + conversation(50, 16);
  world.grow(longer);
  world.writer.run_all();
  ASSERT_TRUE(world.restart());
  EXPECT_EQ(world.check(longer), 48U) << "what continues them takes both along";
}

}  // namespace
}  // namespace kvkeep::cache
