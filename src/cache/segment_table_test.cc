#include "cache/segment_table.h"

#include <algorithm>

#include "cache/parts_fixture.h"

namespace kvkeep::cache {
namespace {

constexpr StateShape kWholeStates{.cacheable = true, .points = true, .whole_points = true};

TEST(SegmentTable, CountsWhatPointsTakeInEachTier) {
  PartsTable world({.cacheable = true, .points = true});
  const SegmentId rows = world.add(kRootSegment, 1);
  const SegmentId point = world.add_leaf(rows, format::PartKind::kPoint, 300);
  CacheLock lock(world.mutex);
  EXPECT_EQ(world.table.sums().points(kRamTier), ByteCount{300});
  EXPECT_EQ(world.table.sums().points(kDiskTier), ByteCount{0});
  world.table.set_copy(point, kDiskTier, CopyState::kComing);
  EXPECT_EQ(world.table.sums().points(kDiskTier), ByteCount{0});
  world.table.set_copy(point, kDiskTier, CopyState::kHere);
  EXPECT_EQ(world.table.sums().points(kDiskTier), world.table.file_size(point));
  world.table.set_copy(point, kDiskTier, CopyState::kLeaving);  // until it has left
  EXPECT_EQ(world.table.sums().points(kDiskTier), world.table.file_size(point));
  world.ram.let_go(point);
  world.table.erase(point);
  EXPECT_EQ(world.table.sums().points(kRamTier), ByteCount{0});
  EXPECT_EQ(world.table.sums().points(kDiskTier), ByteCount{0});
}

TEST(SegmentTable, TellsLivesOfOneNumberApart) {
  PartsTable world;
  const SegmentId first = world.add(kRootSegment, 1);
  const std::uint64_t serial = world.entry(first).serial;
  {
    CacheLock lock(world.mutex);
    world.ram.let_go(first);
    world.table.erase(first);
  }
  EXPECT_FALSE(world.there(first));
  const SegmentId second = world.add(kRootSegment, 2);
  ASSERT_EQ(second, first) << "the index gives numbers out again";
  EXPECT_NE(world.entry(second).serial, serial);
}

TEST(SegmentTable, TellsItsWatchersOfEachChange) {
  struct Watcher final : TableWatcher {
    void changed(SegmentId segment) override { told.push_back(segment); }
    std::vector<SegmentId> told;
  } watcher;
  PartsTable world;
  {
    CacheLock lock(world.mutex);
    world.table.watch(watcher);
  }
  const SegmentId segment = world.add(kRootSegment, 1);
  watcher.told.clear();
  CacheLock lock(world.mutex);
  const std::uint64_t before = world.table.changes();
  world.table.use(segment, 5);
  world.table.set_copy(segment, kDiskTier, CopyState::kHere);
  world.table.keep_until(segment, 9);
  EXPECT_EQ(watcher.told, std::vector(3, segment));
  EXPECT_EQ(world.table.changes(), before + 3);
}

TEST(SegmentTable, NamesWhatHangsBelowAndWhatIsBuiltOnIt) {
  PartsTable world(kWholeStates);
  const SegmentId rows = world.add(kRootSegment, 1, 0);
  const SegmentId more = world.add(rows, 2, 0);
  const SegmentId base = world.add_leaf(rows, format::PartKind::kWhole);
  const SegmentId built = world.add_leaf(more, format::PartKind::kWhole);
  CacheLock lock(world.mutex);
  EXPECT_TRUE(world.table.nothing_below(base));
  world.table.set_built(built, base, world.table.entry(built).part);
  EXPECT_FALSE(world.table.nothing_below(base));
  EXPECT_EQ(world.table.below(base), std::vector{built});
  const std::vector<SegmentId> all = world.table.subtree(rows);
  for (const SegmentId each : {rows, more, base, built}) EXPECT_TRUE(std::ranges::count(all, each) > 0);
  EXPECT_LT(std::ranges::find(all, base) - all.begin(), std::ranges::find(all, built) - all.begin());
  EXPECT_FALSE(world.table.any_in_subtree(rows, [](const Entry& entry) { return entry.in_use(); }));
  world.table.pin(built);
  EXPECT_TRUE(world.table.any_in_subtree(rows, [](const Entry& entry) { return entry.in_use(); }));
}

TEST(SegmentTable, ForgetsAHoleWhenItIsFilled) {
  PartsTable world;
  const SegmentId segment = world.add(kRootSegment, 1);
  CacheLock lock(world.mutex);
  world.table.set_hole(segment);
  EXPECT_EQ(world.table.holes(), 1U);
  world.table.set_copy(segment, kDiskTier, CopyState::kHere);
  EXPECT_EQ(world.table.holes(), 0U);
}

TEST(SegmentTable, KnowsUntilWhenNoLeafIsUnwritten) {
  PartsTable world({.cacheable = true, .points = true});
  const SegmentId rows = world.add(kRootSegment, 1);
  const SegmentId point = world.add_leaf(rows, format::PartKind::kPoint);
  CacheLock lock(world.mutex);
  EXPECT_FALSE(world.table.leaves_are_written(rows));
  world.table.note_leaves_written(rows);
  EXPECT_TRUE(world.table.leaves_are_written(rows));
  world.table.set_unwritten(point, Waits::kContinuation);
  EXPECT_FALSE(world.table.leaves_are_written(rows));
}

TEST(SegmentTable, FindsASegmentByItsName) {
  PartsTable world;
  const SegmentId first = world.add(kRootSegment, 1);
  const SegmentId second = world.add(first, 2);
  CacheLock lock(world.mutex);
  EXPECT_EQ(world.table.named(world.table.name_of(second)), second);
  format::SegmentName other = world.table.name_of(second);
  other.begin = Position{3};
  EXPECT_EQ(world.table.named(other), std::nullopt);
  EXPECT_EQ(world.table.item(second).header.tokens.size(), 16U);
}

}  // namespace
}  // namespace kvkeep::cache
