// Full budgets: what leaves RAM and disk, what may not leave, and that room is always made.

#include "cache/cache_test_fixture.h"
#include "testing/sim/sample_segments.h"

namespace kvkeep::cache {
namespace {

TEST(CacheEviction, DiskBudgetHoldsAndLeasedPathsStay) {
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
  EXPECT_GT(world.cache->stats().from_disk.count(), 0U);
  EXPECT_EQ(world.check(kept), 160U);
  EXPECT_EQ(world.check(conversation(3000, 160)), 160U) << "what was stored last is there";
}

TEST(CacheEviction, RamOnlyBudgetHoldsAndForgetsLeavesFirst) {
  World world(ByteCount{100 * kRowBytes});
  world.open_without_disk();
  for (TokenId i = 1; i <= 20; ++i) {
    const Tokens tokens = conversation(5, 32) + conversation(i * 50, 20);
    world.grow(tokens);
    world.writer.run_all();
    ASSERT_LE(world.cache->stats().ram_used.value(), 100 * kRowBytes);
    ASSERT_GE(world.check(tokens), 32U) << "the shared prefix is used by every conversation";
  }
  EXPECT_GT(world.cache->stats().from_ram.count(), 0U);
}

TEST(CacheEviction, UseDecidesWhatStays) {
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

TEST(CacheEviction, LoadingKeepsTheRamBudget) {
  World world(ByteCount{20 * kRowBytes});
  ASSERT_TRUE(world.open());
  const Tokens tokens = conversation(1, 128);
  world.grow(tokens);
  world.writer.run_all();
  EXPECT_EQ(world.check(tokens), 128U);
  EXPECT_LE(world.cache->stats().ram_used.value(), 20 * kRowBytes);
  EXPECT_GT(world.cache->stats().ram_used.value(), 0U);
}

TEST(CacheEviction, ShortConversationsDoNotFillTheRamForGood) {
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

TEST(CacheEviction, ASmallerBudgetHoldsFromTheStart) {
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
  cache.settle();
  large.writer.run_all();
  EXPECT_LE(store.used(), store.budget());
  EXPECT_LT(large.files.physical_bytes(), before);
  EXPECT_GT(cache.stats().segments, 0U) << "what fits stays";
}

TEST(CacheEviction, LeaseOfALeafInRamHoldsItsAncestorsOnDisk) {
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

// Fills the rest of the disk with conversations that are worth more than those there.
void fill_disk(World& world) {
  world.clock.advance_ms(24 * kHourMs);
  for (TokenId i = 10; world.store->used() + ByteCount{6 * 8192} <= world.store->budget(); ++i) {
    world.grow(conversation(i * 100, 64));
    world.writer.run_all();
  }
  ASSERT_EQ(world.cache->stats().from_disk.count(), 0U);
}

TEST(CacheEviction, GoesOnNextToAHeldChainThatWasNeverWritten) {
  World world(ByteCount{400 * kRowBytes}, ByteCount{20 * 8192});
  ASSERT_TRUE(world.open());
  const Tokens trunk = conversation(1, 32);
  world.grow(trunk);
  world.writer.run_all();
  world.files.set_plan({FaultKind::kFailForever, 1});
  const Tokens whole = trunk + conversation(50, 32);
  world.grow(whole);
  world.writer.run_all();
  world.files.heal();
  std::optional<Track> held(world.cache->track(whole));
  const std::uint64_t refused = world.cache->stats().disk_refused;
  ASSERT_GT(refused, 0U);
  for (TokenId i = 10; i < 30; ++i) {
    world.clock.advance_ms(1000);
    world.grow(conversation(i * 100, 64));
    world.writer.run_all();
  }
  EXPECT_EQ(world.cache->stats().disk_refused, refused) << "room is made beside what is held";
  EXPECT_EQ(world.check(whole), 64U) << "what is held is there, whole";
  held.reset();
  ASSERT_TRUE(world.restart());
  EXPECT_EQ(world.check(conversation(2900, 64)), 64U) << "what was stored last is on disk";
}

TEST(CacheEviction, ASegmentThatWaitsForTheWriterKeepsItsAncestors) {
  for (const bool parent_was_refused : {false, true}) {
    World world(ByteCount{4000 * kRowBytes}, ByteCount{30 * 8192});
    ASSERT_TRUE(world.open());
    const Tokens trunk = conversation(1, 64);
    world.grow(trunk);
    world.writer.run_all();
    ASSERT_TRUE(world.restart()) << "from here on the trunk is on disk only";
    Tokens whole = trunk;
    if (parent_was_refused) {
      whole = whole + conversation(50, 16);
      world.files.set_plan({FaultKind::kFailForever, 1});
      world.grow(whole);
      world.writer.run_all();
      world.files.heal();
    }
    const std::uint64_t refused = world.cache->stats().disk_refused;
    ASSERT_NO_FATAL_FAILURE(fill_disk(world));
    world.grow(conversation(5000, 128));
    whole = whole + conversation(70, 16);
    EXPECT_EQ(world.grow(whole), whole.size());
    world.writer.run_all();  // while it waits unheld, room is made for earlier ones
    EXPECT_GT(world.cache->stats().from_disk.count(), 0U);
    EXPECT_EQ(world.cache->stats().disk_refused, refused);
    ASSERT_TRUE(world.restart());
    EXPECT_EQ(world.check(whole), whole.size());
  }
}

// Victims are chosen without the lock: what a request takes into use in the meantime stays, and others leave.
class CacheEvictionRace : public testing::Test {
 protected:
  // A full disk, one file a conversation, then something that needs room for two: five files are to leave, `old_`
  // second. Calls `use` when the first of them has left.
  void make_room_while(const std::function<void()>& use) {
    world_.save_index_after = SIZE_MAX;  // its growth would blur the sizes
    ASSERT_TRUE(world_.open());
    world_.grow(conversation(500, 32), 32);
    world_.grow(old_, 32);
    world_.clock.advance_ms(24 * kHourMs);
    for (TokenId i = 100; world_.store->used() + ByteCount{8192} <= world_.store->budget(); ++i) {
      world_.grow(conversation(i * 10, 32), 32);
      world_.writer.run_all();
      ASSERT_EQ(world_.cache->stats().from_disk.count(), 0U);
    }
    world_.files.set_observer([&, files = world_.segment_files().size(), used = false]() mutable {
      const bool one_left = world_.segment_files().size() < std::exchange(files, world_.segment_files().size());
      if (one_left && !std::exchange(used, true)) use();
    });
    const Tokens large = conversation(9000, 128);
    world_.grow(large, 128);
    world_.writer.run_all();
    world_.files.set_observer(nullptr);
    EXPECT_GT(world_.cache->stats().from_disk.count(), 1U);
    EXPECT_EQ(world_.cache->stats().disk_refused, 0U);
    EXPECT_EQ(world_.check(large), 128U);
  }

  World world_{ByteCount{0}, ByteCount{192 * 8192}};
  const Tokens old_ = conversation(600, 32);
};

TEST_F(CacheEvictionRace, APathLeasedDuringEvictionStays) {
  std::shared_ptr<Lease> lease;
  make_room_while([&] { lease = world_.cache->lease(old_); });
  ASSERT_NE(lease, nullptr);
  ASSERT_EQ(lease->end(), Position{32});
  EXPECT_EQ(world_.check(old_), 32U);
}

TEST_F(CacheEvictionRace, APathContinuedDuringEvictionStays) {
  const Tokens longer = old_ + conversation(700, 32);
  make_room_while([&] { EXPECT_EQ(world_.grow(longer, 32), 64U); });
  EXPECT_EQ(world_.check(longer), 64U);
}

// Stores others until one of two conversations is not whole any more; true: it was `a`.
bool leaves_first(World& world, const Tokens& a, const Tokens& b) {
  for (TokenId i = 1; i < 100; ++i) {
    world.grow(conversation(10'000 + i * 10, 64), 64);
    world.writer.run_all();
    const bool a_left = world.cache->lease(a)->end() < Position{64};
    const bool b_left = world.cache->lease(b)->end() < Position{64};
    EXPECT_FALSE(a_left && b_left) << "they are not told apart";
    if (a_left || b_left) return a_left;
  }
  ADD_FAILURE() << "neither leaves";
  return false;
}

// Two conversations, alike but for their use, only in RAM or only on disk.
class CacheEvictionByUse : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam()) {
      ASSERT_TRUE(world.open());
    } else {
      world.open_without_disk();
    }
    for (const Tokens& tokens : {a, b}) world.grow(tokens, 64);
    world.writer.run_all();
  }
  void use(const Tokens& tokens, int times) {
    for (int i = 0; i < times; ++i) world.cache->note_use(*world.cache->lease(tokens));
  }
  // Used between the two, so that one growth does not push out both.
  void grow_others() {
    for (TokenId i = 0; i < 4; ++i) world.grow(conversation(300 + i * 100, 64), 64);
    world.writer.run_all();
    world.clock.advance_ms(kHourMs);
  }
  const Tokens a = conversation(100, 64);
  const Tokens b = conversation(200, 64);
  World world{GetParam() ? ByteCount{0} : ByteCount{10 * 64 * kRowBytes}, ByteCount{20 * 8192}};
};

TEST_P(CacheEvictionByUse, APathUsedLongAgoLeavesBeforeOneUsedNow) {
  use(b, 3);
  world.clock.advance_ms(24 * kHourMs);
  grow_others();
  use(a, 1);
  EXPECT_FALSE(leaves_first(world, a, b));
}

TEST_P(CacheEvictionByUse, HowOftenItWasUsedDoesNotCount) {
  use(a, 9);
  world.clock.advance_ms(kHourMs);
  grow_others();
  use(b, 1);
  world.clock.advance_ms(12 * kHourMs);
  EXPECT_TRUE(leaves_first(world, a, b));
}

INSTANTIATE_TEST_SUITE_P(Tiers, CacheEvictionByUse, testing::Bool(),
                         [](const auto& tier) { return tier.param ? "Disk" : "Ram"; });

TEST(CacheEviction, AnEvictedPathCanBeStoredAgain) {
  World world(ByteCount{0}, ByteCount{20 * 8192});
  ASSERT_TRUE(world.open());
  const Tokens tokens = conversation(1, 64);
  world.grow(tokens);
  for (TokenId i = 2; world.cache->lease(tokens)->end() > Position{} && i < 50; ++i) {
    world.clock.advance_ms(kHourMs);
    world.grow(conversation(i * 100, 64));
    world.writer.run_all();
  }
  ASSERT_EQ(world.check(tokens), 0U);
  EXPECT_EQ(world.grow(tokens), 64U);
  EXPECT_EQ(world.check(tokens), 64U);
  world.writer.run_all();
  EXPECT_EQ(world.check(tokens), 64U);
}

TEST(CacheEviction, APathLargerThanTheRamBudgetDoesNotEvictTheRest) {
  World world(ByteCount{20 * kRowBytes});
  ASSERT_TRUE(world.open());
  const Tokens large = conversation(1, 64);
  const Tokens small = conversation(100, 16);
  world.grow(large, 64);
  world.writer.run_all();
  world.grow(small);
  world.writer.run_all();
  EXPECT_EQ(world.check(large), 64U);
  EXPECT_EQ(world.cache->lease(small)->steps().front().tier, Tier::kRam);
  EXPECT_EQ(world.cache->lease(large)->steps().front().tier, Tier::kDisk);
}

// ---- files of other models and settings ----

// Fills a part of the directory under another fingerprint.
void store_for_another_model(World& world, ByteCount bytes) {
  const FingerprintHash other = sim::sample_fingerprint(9);
  auto store =
      store::DiskStore::open({.directory = "/cache", .fingerprint = other, .budget = bytes}, world.files, world.clock);
  ASSERT_TRUE(store.ok());
  for (std::uint32_t i = 0;; ++i) {
    const sim::SampleSegment sample = sim::sample_segment(other, i, 0, 1024);
    if (!(*store)->put(sample.header, {{format::PartKind::kRows, sample.payload}})) break;
  }
  ASSERT_GT((*store)->used().value(), bytes.value() * 9 / 10);
}

TEST(CacheEviction, FilesOfOthersLeaveFirstWhileTheyHoldMostOfTheDisk) {
  World world(ByteCount{0}, ByteCount{40 * 8192});
  ASSERT_NO_FATAL_FAILURE(store_for_another_model(world, ByteCount{35 * 8192}));
  ASSERT_TRUE(world.open());
  for (TokenId i = 1; i <= 4; ++i) {
    world.grow(conversation(i * 100, 64));
    world.writer.run_all();
  }
  EXPECT_EQ(world.cache->stats().disk_refused, 0U);
  EXPECT_EQ(world.cache->stats().from_disk.count(), 0U);
  EXPECT_LT(world.store->foreign_bytes(), ByteCount{35 * 8192});
  for (TokenId i = 1; i <= 4; ++i) EXPECT_EQ(world.check(conversation(i * 100, 64)), 64U);
}

TEST(CacheEviction, FilesOfOthersThatHoldLittleStayUntilNothingElseMayLeave) {
  World world(ByteCount{0}, ByteCount{40 * 8192});
  ASSERT_NO_FATAL_FAILURE(store_for_another_model(world, ByteCount{15 * 8192}));
  ASSERT_TRUE(world.open());
  const ByteCount foreign = world.store->foreign_bytes();
  for (TokenId i = 1; i <= 20; ++i) {
    world.grow(conversation(i * 100, 64));
    world.writer.run_all();
  }
  EXPECT_GT(world.cache->stats().from_disk.count(), 0U);
  EXPECT_EQ(world.store->foreign_bytes(), foreign);
  std::vector<std::shared_ptr<Lease>> held;
  for (TokenId i = 1; i <= 20; ++i) held.push_back(world.cache->lease(conversation(i * 100, 64)));
  const Tokens last = conversation(5000, 64);
  world.grow(last);
  world.writer.run_all();
  EXPECT_LT(world.store->foreign_bytes(), foreign);
  EXPECT_EQ(world.check(last), 64U);
}

TEST(CacheEviction, FilesOfOthersLeaveWhenTheBudgetBecameSmaller) {
  World world(ByteCount{0}, ByteCount{20 * 8192});
  ASSERT_NO_FATAL_FAILURE(store_for_another_model(world, ByteCount{35 * 8192}));
  ASSERT_TRUE(world.open());
  EXPECT_LE(world.store->used(), world.store->budget());
}

}  // namespace
}  // namespace kvkeep::cache
