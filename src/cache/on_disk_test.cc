// Parts that need a disk, on a simulated one and without a cache: the disk tier, its room, write-behind, other servers.

#include <algorithm>

#include "cache/parts_fixture.h"
#include "cache/peer.h"
#include "cache/write_back.h"
#include "testing/sim/sim_file_system.h"

namespace kvkeep::cache {
namespace {

std::unique_ptr<store::DiskStore> open_store(sim::SimFileSystem& files, os::Clock& clock, ByteCount budget) {
  auto opened = store::DiskStore::open({.directory = "/cache", .fingerprint = {}, .budget = budget}, files, clock);
  EXPECT_TRUE(opened.ok());
  return std::move(*opened);
}

struct OnDisk : PartsTable {
  explicit OnDisk(sim::SimFileSystem& disk_files, ByteCount budget = mebibytes(4), ByteCount write_queue = {})
      : files(disk_files),
        options({.fingerprint = {}, .ram_budget = mebibytes(1), .min_disk_tokens = 8, .write_queue = write_queue}),
        disk(open_store(files, clock, budget), mutex, table, clock, writer, 256) {}

  std::vector<LowerTier> with_disk() { return {{kDiskTier, &disk, &writer, &reader}}; }
  void offer(SegmentId segment) {
    CacheLock lock(mutex);
    write_back.offer(segment);
  }
  TierItem item(SegmentId segment) {
    CacheLock lock(mutex);
    return table.item(segment);
  }

  sim::SimFileSystem& files;
  const CacheOptions options;
  DiskTier disk;
  Forgetting forgetting{mutex, table, ram, with_disk(), clock};
  Evictor of_ram{mutex, table, forgetting, ram, kRamTier, with_disk(), clock};
  Evictor of_disk{mutex, table, forgetting, disk, kDiskTier, with_disk(), clock};
  RamRoom ram_room{options, mutex, ram, of_ram, true};
  DiskRoom disk_room{options, mutex, table, disk, of_disk};
  FurtherCopies copies{mutex, table, ram, forgetting, with_disk(), clock};
  StateChains chains{mutex, table, ram, ram_room, forgetting, true};
  Fetcher fetcher{mutex, table, ram, ram_room, forgetting, chains, with_disk(), clock};
  Distrust distrust{&disk.store(), writer};
  DiskWriter disk_writer{options, mutex, table, ram, forgetting, disk_room, distrust, clock};
  WriteBack write_back{options, mutex, table, ram, ram_room, fetcher, copies, nullptr, &disk_writer, writer};
  Peer peer{mutex, table, ram, forgetting, chains, disk_room, write_back, clock, writer};
};

// ---- the tier and its room ----

TEST(DiskTier, IsAPortAsOthersAre) {
  sim::SimFileSystem files(1);
  OnDisk world(files);
  const TierItem item = world.item(world.add(kRootSegment, 1));
  EXPECT_EQ(world.disk.get(item).error().kind, ErrorKind::kNotFound);
  ASSERT_TRUE(world.disk.put(item, some_bytes()).ok());
  EXPECT_GT(world.disk.used(), ByteCount{kPayloadBytes});
  const auto bytes = world.disk.get(item);
  ASSERT_TRUE(bytes.ok());
  EXPECT_TRUE(std::ranges::equal((*bytes)->bytes(), some_bytes()->bytes()));
  ASSERT_TRUE(world.disk.drop(item).ok());
  EXPECT_EQ(world.disk.get(item).error().kind, ErrorKind::kNotFound);
}

TEST(DiskRoom, IsMadeByWhatWasUsedLongestAgo) {
  sim::SimFileSystem files(1);
  OnDisk world(files, ByteCount{64 * 4096});
  std::vector<SegmentId> segments;
  for (TokenId first = 1; first <= 20; ++first) {
    world.clock.advance_ms(1000);
    segments.push_back(world.add(kRootSegment, first, 20'000));
    world.offer(segments.back());
    world.writer.run_all();
  }
  EXPECT_LE(world.disk.used(), world.disk.budget());
  EXPECT_FALSE(world.entry(segments.front()).on_disk());
  EXPECT_TRUE(world.entry(segments.back()).on_disk());
}

TEST(DiskRoom, RefusesWhatIsLargerThanItsBudget) {
  sim::SimFileSystem files(1);
  OnDisk world(files, ByteCount{64 * 4096});
  const SegmentId large = world.add(kRootSegment, 1, 300'000);
  const Status refused = world.disk_room.put(world.item(large), some_bytes(300'000));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kNoSpace);
}

TEST(Distrust, IsNotedOnDisk) {
  sim::SimFileSystem files(1);
  OnDisk world(files);
  EXPECT_FALSE(world.distrust);
  world.distrust.find("a row is another's");
  EXPECT_TRUE(world.distrust);
  world.writer.run_all();
  const auto why = world.disk.store().distrusted();
  ASSERT_TRUE(why.ok());
  EXPECT_EQ(*why, "a row is another's");
  const SegmentId segment = world.add(kRootSegment, 1);
  world.offer(segment);
  world.writer.run_all();
  EXPECT_FALSE(world.entry(segment).on_disk()) << "nothing is stored any more";
}

// ---- what is written, without the queue ----

TEST(DiskWriter, WritesThePathToASegmentFromTheRootOn) {
  sim::SimFileSystem files(1);
  OnDisk world(files);
  const SegmentId above = world.add(kRootSegment, 1);
  const SegmentId below = world.add(above, 2);
  const DiskWriter::Outcome outcome = world.disk_writer.write_path(below);
  EXPECT_EQ(outcome.waits, Waits::kContinuation);
  EXPECT_TRUE(outcome.put_off.empty());
  EXPECT_TRUE(world.entry(above).on_disk());
  EXPECT_TRUE(world.entry(below).on_disk());
}

TEST(DiskWriter, WritesNothingBelowAHole) {
  sim::SimFileSystem files(1);
  OnDisk world(files);
  const SegmentId above = world.add(kRootSegment, 1);
  const SegmentId below = world.add(above, 2);
  world.drop_from_ram(above);
  world.disk_writer.write_path(below);
  EXPECT_FALSE(world.entry(below).on_disk());
  EXPECT_EQ(world.disk.store().counters().puts, 0U);
}

TEST(DiskWriter, CountsWhatTheDiskRefuses) {
  sim::SimFileSystem files(1);
  OnDisk world(files, ByteCount{64 * 4096});
  const SegmentId large = world.add(kRootSegment, 1, 300'000);
  EXPECT_EQ(world.disk_writer.write_path(large).waits, Waits::kContinuation);
  CacheStats stats;
  CacheLock lock(world.mutex);
  world.disk_writer.count(stats);
  EXPECT_EQ(stats.disk_refused, 1U);
  EXPECT_EQ(world.table.entry(large).waits, Waits::kContinuation);
}

// ---- write-behind ----

TEST(WriteBack, WritesEachOnceAndAboveItFirst) {
  sim::SimFileSystem files(1);
  OnDisk world(files);
  const SegmentId above = world.add(kRootSegment, 1);
  const SegmentId below = world.add(above, 2);
  world.offer(below);
  world.offer(above);
  world.writer.run_one();
  EXPECT_TRUE(world.entry(above).on_disk()) << "with what continues it";
  EXPECT_TRUE(world.entry(below).on_disk());
  world.writer.run_all();
  EXPECT_EQ(world.disk.store().counters().puts, 2U);
}

TEST(WriteBack, HoldsTheNewestBackWhileTheDiskLags) {
  sim::SimFileSystem files(1);
  OnDisk world(files, mebibytes(4), ByteCount{kPayloadBytes});
  std::vector<SegmentId> segments;
  for (TokenId first = 1; first <= 3; ++first) segments.push_back(world.add(kRootSegment, first));
  for (const SegmentId segment : segments) world.offer(segment);
  EXPECT_TRUE(world.entry(segments[0]).queued());
  EXPECT_EQ(world.entry(segments[1]).waits, Waits::kQueue);
  EXPECT_EQ(world.entry(segments[2]).waits, Waits::kQueue);
  world.write_back.drain();
  for (const SegmentId segment : segments) EXPECT_TRUE(world.entry(segment).on_disk());
  CacheStats stats;
  CacheLock lock(world.mutex);
  world.write_back.count(stats);
  EXPECT_EQ(stats.held_back, 2U);
  EXPECT_EQ(stats.waiting_writes, 0U);
}

// ---- other servers, and former processes ----

TEST(Peer, AdoptsWhatAFormerProcessLeft) {
  sim::SimFileSystem files(1);
  {
    OnDisk former(files);
    const SegmentId above = former.add(kRootSegment, 1);
    former.offer(former.add(above, 2));
    former.writer.run_all();
  }
  OnDisk world(files);
  world.peer.recover();
  CacheLock lock(world.mutex);
  EXPECT_EQ(world.table.index().segment_count(), 2U);
  for (const SegmentId segment : world.table.index().childless()) {
    EXPECT_TRUE(world.table.entry(segment).on_disk());
    EXPECT_FALSE(world.table.entry(segment).in_ram());
  }
}

TEST(Peer, ForgetsWhatOthersRemovedUnlessRamHasIt) {
  sim::SimFileSystem files(1);
  OnDisk world(files);
  const SegmentId kept = world.add(kRootSegment, 1);
  const SegmentId gone = world.add(kRootSegment, 2);
  world.offer(kept);
  world.offer(gone);
  world.writer.run_all();
  world.drop_from_ram(gone);
  world.peer.forget_gone({world.item(kept).header.name, world.item(gone).header.name});
  EXPECT_FALSE(world.there(gone));
  EXPECT_TRUE(world.entry(kept).available());
  EXPECT_EQ(world.entry(kept).waits, Waits::kContinuation);
}

TEST(Peer, WritesAgainWhatIsMissingAboveAFile) {
  sim::SimFileSystem files(1);
  OnDisk world(files);
  const SegmentId above = world.add(kRootSegment, 1);
  const SegmentId below = world.add(above, 2);
  world.offer(below);
  world.writer.run_all();
  const TierItem missing = world.item(above);
  ASSERT_TRUE(world.disk.drop(missing).ok());
  world.peer.forget_gone({missing.header.name});
  EXPECT_TRUE(world.entry(above).queued());
  world.writer.run_all();
  EXPECT_TRUE(world.disk.get(missing).ok());
  EXPECT_TRUE(world.entry(below).on_disk());
}

}  // namespace
}  // namespace kvkeep::cache
