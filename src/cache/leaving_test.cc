// Leaving, without a cache: the RAM tier, forgetting, evictors, room and expiry.

#include <algorithm>

#include "cache/expiry.h"
#include "cache/parts_fixture.h"
#include "cache/room.h"

namespace kvkeep::cache {
namespace {

constexpr StateShape kPoints{.cacheable = true, .points = true};

// ---- RAM ----

TEST(RamTier, IsAPortAsOthersAre) {
  PartsTable world;
  const SegmentId segment = world.add(kRootSegment, 1);
  TierItem item;
  {
    CacheLock lock(world.mutex);
    item = world.table.item(segment);
  }
  EXPECT_EQ(world.ram.used(), ByteCount{kPayloadBytes});
  const auto bytes = world.ram.get(item);
  ASSERT_TRUE(bytes.ok());
  ASSERT_TRUE(world.ram.drop(item).ok());
  EXPECT_FALSE(world.entry(segment).in_ram());
  EXPECT_EQ(world.ram.used(), ByteCount{0});
  EXPECT_EQ(world.ram.get(item).error().kind, ErrorKind::kNotFound);
  ASSERT_TRUE(world.ram.put(item, *bytes).ok());
  EXPECT_TRUE(world.entry(segment).in_ram());
  EXPECT_EQ(world.ram.used(), ByteCount{kPayloadBytes});
}

TEST(RamTier, ChargesRowsOfNoBytesForTheirIds) {
  PartsTable world;
  world.add(kRootSegment, 1, 0);
  EXPECT_EQ(world.ram.used(), ByteCount{16 * sizeof(TokenId)});
}

TEST(RamTier, DropsTheLongestUnusedOfDecodedStatesFirst) {
  PartsTable world(kPoints);
  const SegmentId rows = world.add(kRootSegment, 1);
  const SegmentId old = world.add_leaf(rows, format::PartKind::kPoint);
  const SegmentId fresh = world.add_leaf(world.add(rows, 2), format::PartKind::kPoint);
  CacheLock lock(world.mutex);
  const ByteCount before = world.ram.used();
  world.table.use(old, 1);
  world.table.use(fresh, 2);
  world.ram.hold_decoded(old, some_bytes(500));
  world.ram.hold_decoded(fresh, some_bytes(500));
  EXPECT_EQ(world.ram.used(), before + ByteCount{1000});
  world.ram.drop_decoded(before + ByteCount{500});
  EXPECT_EQ(world.ram.decoded(old), nullptr);
  EXPECT_NE(world.ram.decoded(fresh), nullptr);
  world.ram.let_go(fresh);  // with its state
  EXPECT_EQ(world.ram.decoded_bytes(), ByteCount{0});
}

// ---- forgetting ----

TEST(Forgetting, WaitUntilNobodyHoldsAnyOfIt) {
  PartsTable world;
  const SegmentId above = world.add(kRootSegment, 1);
  const SegmentId below = world.add(above, 2);
  world.put_below(above);
  {
    CacheLock lock(world.mutex);
    world.table.pin(below);
  }
  world.forgetting.report_damaged(above);
  EXPECT_TRUE(world.there(above));
  EXPECT_FALSE(world.entry(above).available());
  {
    CacheLock lock(world.mutex);
    EXPECT_EQ(world.forgetting.forgotten_from(below), Position{});
    EXPECT_EQ(world.forgetting.damaged(), 1U);
  }
  world.forgetting.release({&below, 1});
  EXPECT_FALSE(world.there(above));
  EXPECT_FALSE(world.there(below));
  world.writer.run_all();
  EXPECT_TRUE(world.lower.held.empty()) << "what is forgotten leaves every tier";
}

// A prompt that comes while a writer still holds what a command cleared must learn that it was cleared.
TEST(Forgetting, TellWhatWasLostAlsoWhileItIsHeld) {
  PartsTable world;
  const SegmentId above = world.add(kRootSegment, 1);
  const SegmentId below = world.add(above, 2);
  std::vector<TokenId> prompt;
  {
    CacheLock lock(world.mutex);
    prompt = world.table.index().path_tokens({below, world.table.info(below).range.end});
    world.table.pin(below);
    world.forgetting.forget(above, explain::LossCause::kForgotten);
    world.forgetting.sweep();
  }
  prompt.push_back(9);
  const auto lost_from = [&](std::size_t known) {
    const Position end = Position{} + known;
    CacheLock lock(world.mutex);
    return world.forgetting.lost(prompt, {Position{}, end}, kNoTenant, FingerprintHash{});
  };
  for (const bool held : {true, false}) {
    ASSERT_EQ(world.there(above), held);
    for (const std::size_t known : {0U, 16U}) {
      const auto lost = lost_from(known);
      ASSERT_TRUE(lost.has_value());
      EXPECT_EQ(lost->cause, explain::LossCause::kForgotten);
      EXPECT_EQ(lost->tokens, 32 - known) << "held: " << held;
    }
    if (held) world.forgetting.release({&below, 1});
  }
}

TEST(Forgetting, TakeWhatIsBuiltOnAForgottenState) {
  PartsTable world({.cacheable = true, .points = true, .whole_points = true});
  const SegmentId rows = world.add(kRootSegment, 1, 0);
  const SegmentId base = world.add_leaf(rows, format::PartKind::kWhole);
  const SegmentId built = world.add_leaf(world.add(rows, 2, 0), format::PartKind::kWhole);
  {
    CacheLock lock(world.mutex);
    world.table.set_built(built, base, world.table.entry(built).part);
  }
  world.forgetting.report_damaged(base);
  EXPECT_FALSE(world.there(base));
  EXPECT_FALSE(world.there(built));
  EXPECT_TRUE(world.there(rows));
}

TEST(Forgetting, ForgetACopyAndOnlyWithTheLastOneTheSegment) {
  PartsTable world;
  const SegmentId segment = world.add(kRootSegment, 1);
  world.put_below(segment);
  {
    CacheLock lock(world.mutex);
    world.forgetting.forget_copy(segment, kDiskTier);
  }
  EXPECT_TRUE(world.entry(segment).available());
  world.put_below(segment);
  world.drop_from_ram(segment);
  {
    CacheLock lock(world.mutex);
    world.forgetting.forget_copy(segment, kDiskTier);
  }
  EXPECT_FALSE(world.there(segment));
}

// ---- evictors ----

struct Evicted : PartsTable {
  explicit Evicted(const StateShape& shape = {.cacheable = true}, Promise promise = Promise::kDurable)
      : PartsTable(shape, promise) {}
  Evictor of_ram{mutex, table, forgetting, ram, kRamTier, tiers(), clock};
  Evictor of_lower{mutex, table, forgetting, lower, kDiskTier, tiers(), clock};
};

TEST(Evictor, LeavesADurableTierFromTheEndsOfPaths) {
  Evicted world;
  const SegmentId above = world.add(kRootSegment, 1);
  const SegmentId below = world.add(above, 2);
  world.put_below(above);
  world.put_below(below);
  const auto early = world.of_lower.evict(above, EvictCause::kRoom);
  ASSERT_TRUE(early.ok());
  EXPECT_EQ(*early, ByteCount{0}) << "something hangs below it there";
  EXPECT_EQ(world.of_lower.make_room({.bytes = ByteCount{SIZE_MAX}}).count, 2U);
  EXPECT_EQ(world.lower.dropped, (std::vector{below, above}));
  EXPECT_TRUE(world.entry(above).available()) << "RAM still has it";
}

TEST(Evictor, CountsByCauseWhatLeftAndHowLongItWasUnused) {
  Evicted world;
  const SegmentId first = world.add(kRootSegment, 1);
  const SegmentId second = world.add(kRootSegment, 2);
  world.put_below(first);
  world.put_below(second);
  world.clock.advance_ns(90'000'000'000);
  ASSERT_TRUE(world.of_lower.evict(first, EvictCause::kExpired));
  ASSERT_TRUE(world.of_lower.evict(first, EvictCause::kExpired)) << "it is not there any more, and does not count";
  EXPECT_EQ(world.of_lower.make_room({.bytes = ByteCount{1}}).count, 1U);
  CacheLock lock(world.mutex);
  const EvictionCounts& counts = world.of_lower.evicted();
  EXPECT_EQ(counts[EvictCause::kExpired], 1U);
  EXPECT_EQ(counts[EvictCause::kRoom], 1U);
  EXPECT_EQ(counts[EvictCause::kPointsShare], 0U);
  EXPECT_EQ(counts.count(), 2U);
  EXPECT_NEAR(counts.idle.sum(), 180, 0.001);
}

TEST(Evictor, ForgetsWhatLeavesTheLastTier) {
  Evicted world;
  const SegmentId above = world.add(kRootSegment, 1);
  const SegmentId below = world.add(above, 2);
  world.put_below(above);
  EXPECT_EQ(world.of_ram.make_room({.bytes = ByteCount{SIZE_MAX}}).bytes, ByteCount{2 * kPayloadBytes});
  EXPECT_FALSE(world.there(below)) << "RAM alone had it";
  EXPECT_TRUE(world.entry(above).available());
}

TEST(Evictor, KeepsWhatIsInUseOrWaitsForTheDisk) {
  Evicted world;
  const SegmentId above = world.add(kRootSegment, 1);
  const SegmentId held = world.add(above, 2);
  const SegmentId queued = world.add(kRootSegment, 3);
  world.put_below(above);
  {
    CacheLock lock(world.mutex);
    world.table.pin(held);
    world.table.set_copy(queued, kDiskTier, CopyState::kQueued);
  }
  EXPECT_EQ(world.of_lower.make_room({.bytes = ByteCount{SIZE_MAX}}).count, 0U) << "what is held continues it";
  EXPECT_EQ(world.of_ram.make_room({.bytes = ByteCount{SIZE_MAX}}).count, 0U) << "a path leaves RAM from its end";
  const SegmentId written = world.add(kRootSegment, 4);
  world.put_below(written);
  EXPECT_EQ(world.of_ram.make_room({.bytes = ByteCount{SIZE_MAX}}).count, 1U) << "only what the disk has";
  EXPECT_FALSE(world.entry(written).in_ram());
  EXPECT_TRUE(world.entry(held).in_ram());
  EXPECT_TRUE(world.entry(queued).in_ram());
}

TEST(Evictor, CountsNoCopyOfATierThatPromisesNothingForWhatIsHeld) {
  Evicted world({.cacheable = true}, Promise::kNone);
  const SegmentId held = world.add(kRootSegment, 1);
  world.put_below(held);
  {
    CacheLock lock(world.mutex);
    world.table.pin(held);
  }
  EXPECT_EQ(world.of_ram.make_room({.bytes = ByteCount{1}}).count, 0U);
  world.forgetting.release({&held, 1});
  EXPECT_EQ(world.of_ram.make_room({.bytes = ByteCount{1}}).count, 1U);
  EXPECT_TRUE(world.there(held)) << "a copy is left";
}

TEST(Evictor, StopsAtATierThatRefuses) {
  Evicted world;
  const SegmentId segment = world.add(kRootSegment, 1);
  world.put_below(segment);
  world.lower.refuses = true;
  EXPECT_EQ(world.of_lower.make_room({.bytes = ByteCount{1}}).count, 0U);
  EXPECT_TRUE(world.entry(segment).on_disk());
}

// ---- room ----

TEST(RamRoom, MakesRoomWithinTheBudget) {
  PartsTable world({.cacheable = true}, Promise::kDurable, ByteCount{10 * kPayloadBytes});
  Evictor evictor(world.mutex, world.table, world.forgetting, world.ram, kRamTier, world.tiers(), world.clock);
  RamRoom room({}, world.mutex, world.ram, evictor, false);
  for (TokenId first = 1; first <= 10; ++first) world.add(kRootSegment, first);
  EXPECT_TRUE(room.make(3 * kPayloadBytes));
  EXPECT_LE(world.ram.used(), ByteCount{7 * kPayloadBytes});
  EXPECT_FALSE(room.make(11 * kPayloadBytes)) << "more than all of it";
}

TEST(RamRoom, GivesAWriteQueueWhatTheDiskNeeds) {
  PartsTable world({.cacheable = true}, Promise::kDurable, ByteCount{0});
  Evictor evictor(world.mutex, world.table, world.forgetting, world.ram, kRamTier, world.tiers(), world.clock);
  RamRoom room({}, world.mutex, world.ram, evictor, true);
  CacheLock lock(world.mutex);
  room.note_point(mebibytes(3));
  EXPECT_EQ(room.write_queue_limit(), kMinimumWriteQueue + mebibytes(6));
  EXPECT_TRUE(room.has(1 << 20));
}

// ---- expiry ----

TEST(Expiry, TakesTheEndsOfPathsWhoseTimeIsOver) {
  constexpr std::int64_t kLife = 1'000'000'000;
  PartsTable world;
  const SegmentId above = world.add(kRootSegment, 1);
  const SegmentId below = world.add(above, 2);
  const SegmentId other = world.add(kRootSegment, 3);
  Expiry expiry(world.mutex, world.table, world.forgetting, nullptr, nullptr, world.clock, kLife);
  world.clock.advance_ms(2000);
  {
    CacheLock lock(world.mutex);
    world.table.use(other, world.clock.wall_ns());
  }
  EXPECT_FALSE(expiry.next_portion()) << "that was all";
  EXPECT_FALSE(world.there(below));
  EXPECT_FALSE(world.there(above));
  EXPECT_TRUE(world.there(other));
  CacheLock lock(world.mutex);
  EXPECT_EQ(expiry.expired(), 2U);
}

}  // namespace
}  // namespace kvkeep::cache
