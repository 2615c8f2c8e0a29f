#pragma once

// Room in a tier for new segments: how much the tier may hold, and what leaves for them.

#include "cache/cache_options.h"
#include "cache/evictor.h"
#include "cache/tiers.h"

namespace kvkeep::cache {

// Room in RAM. With a disk tier the writer's queue may use kMinimumWriteQueue and two of the largest points even if the
// budget is smaller.
class RamRoom {
 public:
  RamRoom(const CacheOptions& options, CacheMutex& mutex, RamTier& ram, Evictor& evictor, bool has_disk)
      : mutex_(mutex), ram_(ram), evictor_(evictor), write_queue_(options.write_queue), has_disk_(has_disk) {}

  // Some models' points grow.
  void note_point(ByteCount size) REQUIRES(kCacheLock) { largest_point_ = std::max(largest_point_, size); }
  ByteCount largest_point() const REQUIRES(kCacheLock) { return largest_point_; }
  ByteCount write_queue_limit() const REQUIRES(kCacheLock);
  bool has(std::size_t size_bytes) const REQUIRES(kCacheLock) { return ram_.used() + ByteCount{size_bytes} <= limit(); }
  // Evicts the least valuable segments, if need be. Returns false if there still is no room.
  bool make(std::size_t size_bytes) EXCLUDES(kCacheLock);
  // Goes back to the budget, after a queue that may exceed it.
  void trim() EXCLUDES(kCacheLock);
  // Returns true if that many more bytes fit into the budget, without decoded states.
  bool spare(ByteCount size) REQUIRES(kCacheLock);

 private:
  ByteCount limit() const REQUIRES(kCacheLock);
  void make_within(ByteCount limit, ByteCount room) EXCLUDES(kCacheLock);

  CacheMutex& mutex_;
  RamTier& ram_;
  Evictor& evictor_;
  const ByteCount write_queue_;  // CacheOptions::write_queue; 0: by the RAM budget
  const bool has_disk_;
  ByteCount largest_point_ GUARDED_BY(kCacheLock);
};

// Room on disk, of which points may take a share. Files of other models and settings in the same directory, which are
// not this cache's, take some too. Used only from the writer.
class DiskRoom {
 public:
  DiskRoom(const CacheOptions& options, CacheMutex& mutex, SegmentTable& table, DiskTier& disk, Evictor& evictor)
      : mutex_(mutex),
        table_(table),
        disk_(disk),
        evictor_(evictor),
        points_share_(options.shape.needs_points() ? std::min(options.disk_points_share, 100U) : 100U) {}

  DiskTier& tier() { return disk_; }
  // Puts a segment on disk; less valuable ones leave for it.
  Status put(const TierItem& item, const TierPort::Bytes& bytes);
  // Frees about `needed` bytes of the directory. Returns false if nothing could leave.
  bool make(ByteCount needed);
  // Makes a smaller budget hold from the start, not only when something is stored.
  void fit();

 private:
  bool evict(ByteCount needed, bool points_only = false);
  ByteCount evict_foreign(ByteCount needed, store::Kept kept);
  ByteCount slack() const;
  ByteCount over_budget() const;
  bool make_points_room(ByteCount file);

  CacheMutex& mutex_;
  SegmentTable& table_;
  DiskTier& disk_;
  Evictor& evictor_;
  const std::uint32_t points_share_;  // percent of the budget
};

}  // namespace kvkeep::cache
