// The cache over a simulated disk: what comes back is what was stored for exactly that prefix, whatever was evicted,
// damaged, interrupted or lost; and it works again when the faults stop.

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

TEST(Cache, DamagedSegmentIsAMissAndIsStoredAgain) {
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

TEST(Cache, DeadPathOfARunningSequenceIsNotExtended) {
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

TEST(Cache, DiskBudgetHoldsAndLeasedPathsStay) {
  const ByteCount budget{40 * 8192};
  World world(ByteCount{0}, budget);
  ASSERT_TRUE(world.open());
  const Tokens kept = conversation(1, 160);
  world.grow(kept);
  world.writer.run_all();
  const std::shared_ptr<Lease> lease = world.cache->lease(kept);
  ASSERT_EQ(lease->end(), Position{160});
  for (TokenId i = 1; i <= 30; ++i) {
    world.grow(conversation(i * 100, 160));
    world.writer.run_all();
    ASSERT_LE(world.store->used(), budget) << "after conversation " << i;
  }
  EXPECT_GT(world.cache->stats().disk_evicted, 0U);
  EXPECT_EQ(world.check(kept), 160U);
  EXPECT_EQ(world.check(conversation(3000, 160)), 160U) << "what was stored last is there";
}

TEST(Cache, RamOnlyBudgetHoldsAndForgetsLeavesFirst) {
  sim::SimClock clock;
  sim::SimExecutor writer;
  sim::SimExecutor reader;
  World world;
  world.cache = std::make_unique<Cache>(CacheOptions{.fingerprint = {}, .ram_budget = ByteCount{100 * kRowBytes}},
                                        nullptr, clock, writer, reader);
  for (TokenId i = 1; i <= 20; ++i) {
    const Tokens tokens = conversation(5, 32) + conversation(i * 50, 20);
    world.grow(tokens);
    writer.run_all();
    ASSERT_LE(world.cache->stats().ram_used.value(), 100 * kRowBytes);
    ASSERT_GE(world.check(tokens), 32U) << "the shared prefix is used by every conversation";
  }
  EXPECT_GT(world.cache->stats().ram_evicted, 0U);
}

TEST(Cache, WithoutAnyTierNothingIsAccepted) {
  sim::SimClock clock;
  sim::SimExecutor writer;
  sim::SimExecutor reader;
  World world;
  world.cache = std::make_unique<Cache>(CacheOptions{}, nullptr, clock, writer, reader);
  EXPECT_FALSE(world.cache->accepts());
  EXPECT_EQ(world.grow(conversation(1, 32)), 0U);
}

TEST(Cache, UseDecidesWhatStays) {
  const ByteCount budget{24 * 8192};
  World world(ByteCount{0}, budget);
  ASSERT_TRUE(world.open());
  const Tokens used = conversation(1, 64);
  world.grow(used);
  world.grow(conversation(100, 64));
  world.writer.run_all();
  for (TokenId i = 2; i < 12; ++i) {
    world.cache->note_use(*world.cache->lease(used));
    world.grow(conversation(i * 100, 64));
    world.writer.run_all();
  }
  EXPECT_EQ(world.check(used), 64U) << "what is used again and again stays";
  EXPECT_EQ(world.check(conversation(100, 64)), 0U) << "what is as old and was never used leaves";
}

TEST(Cache, LoadingKeepsTheRamBudget) {
  World world(ByteCount{20 * kRowBytes});
  ASSERT_TRUE(world.open());
  const Tokens tokens = conversation(1, 128);
  world.grow(tokens);
  world.writer.run_all();
  EXPECT_EQ(world.check(tokens), 128U);
  EXPECT_LE(world.cache->stats().ram_used.value(), 20 * kRowBytes);
  EXPECT_GT(world.cache->stats().ram_used.value(), 0U);
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
  EXPECT_FALSE(world.cache->store(track, conversation(next, 16), world.cache->staging(kBig), kBig))
      << "also without asking first";
  world.writer.run_all();
  EXPECT_TRUE(store_big(next));
}

TEST(Cache, ShortConversationsDoNotFillTheRamForGood) {
  World world(ByteCount{100 * kRowBytes}, mebibytes(64));
  world.cache = nullptr;
  sim::SimClock clock;
  world.cache = std::make_unique<Cache>(
      CacheOptions{.fingerprint = {}, .ram_budget = ByteCount{100 * kRowBytes}, .min_disk_tokens = 32},
      std::move(*store::DiskStore::open({.directory = "/other", .fingerprint = {}, .budget = mebibytes(64)},
                                        world.files, clock)),
      clock, world.writer, world.reader);
  for (TokenId i = 1; i < 200; ++i) {
    world.grow(conversation(i * 10, 20));
    world.writer.run_all();
    ASSERT_LE(world.cache->stats().ram_used.value(), 100 * kRowBytes) << "prompt " << i;
  }
  const Tokens longer = conversation(7, 96);
  EXPECT_EQ(world.grow(longer), 96U);
  world.writer.run_all();
  EXPECT_EQ(world.check(longer), 96U);
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

TEST(Cache, ASmallerBudgetHoldsFromTheStart) {
  World large(ByteCount{0}, ByteCount{200 * 8192});
  ASSERT_TRUE(large.open());
  for (TokenId i = 1; i < 20; ++i) large.grow(conversation(i * 100, 64));
  large.writer.run_all();
  const std::uint64_t before = large.files.physical_bytes();
  large.die();
  large.files.kill();
  auto disk = store::DiskStore::open({.directory = "/cache", .fingerprint = {}, .budget = ByteCount{30 * 8192}},
                                     large.files, large.clock);
  ASSERT_TRUE(disk.ok());
  const store::DiskStore& store = **disk;
  ASSERT_GT(store.used(), store.budget());
  Cache cache({.fingerprint = {}, .ram_budget = {}}, std::move(*disk), large.clock, large.writer, large.reader);
  large.writer.run_all();
  EXPECT_LE(store.used(), store.budget());
  EXPECT_LT(large.files.physical_bytes(), before);
  EXPECT_GT(cache.stats().segments, 0U) << "what fits stays";
}

TEST(Cache, FilesOfDeadSegmentsLeaveTheDisk) {
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

TEST(Cache, LeaseOfALeafInRamHoldsItsAncestorsOnDisk) {
  const ByteCount budget{20 * 8192};
  World world(ByteCount{200 * kRowBytes}, budget);
  ASSERT_TRUE(world.open());
  const Tokens trunk = conversation(1, 64);
  world.grow(trunk);
  world.writer.run_all();
  world.files.set_plan({FaultKind::kFailForever, 1});
  const Tokens whole = trunk + conversation(50, 32);
  world.grow(whole);
  world.writer.run_all();
  world.files.heal();
  const std::shared_ptr<Lease> lease = world.cache->lease(whole);
  ASSERT_EQ(lease->end(), Position{96});
  for (TokenId i = 2; i < 20; ++i) {
    world.grow(conversation(i * 100, 64));
    world.writer.run_all();
  }
  EXPECT_EQ(world.check(whole), 96U);
}

}  // namespace
}  // namespace kvkeep::cache
