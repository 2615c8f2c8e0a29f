#pragma once

// A time to live (CacheOptions::time_to_live_ns): what nobody used for so long leaves all tiers, the ends of paths
// first, in small portions on the writer. Where several servers use a directory, the one that keeps its budget removes
// files.

#include <optional>

#include "cache/disk_tier.h"
#include "cache/evictor.h"
#include "cache/graves.h"

namespace kvkeep::cache {

class Expiry {
 public:
  // The disk and its evictor may be null: there is no disk tier. 0: everything lives on.
  Expiry(CacheMutex& mutex, SegmentTable& table, Graves& graves, DiskTier* disk, Evictor* disk_evictor,
         os::Clock& clock, std::int64_t time_to_live_ns)
      : mutex_(mutex),
        table_(table),
        graves_(graves),
        disk_(disk),
        disk_evictor_(disk_evictor),
        clock_(clock),
        time_to_live_ns_(time_to_live_ns) {}

  bool wanted() const { return time_to_live_ns_ > 0; }
  // Looks at some segments, and lets go of those whose time is over. False: that was the last portion of a round.
  bool next_portion() EXCLUDES(kCacheLock);
  // Files of other models: no server's index knows them, so the directory's keeper looks at their times now and then.
  void expire_foreign();
  std::uint64_t expired() const REQUIRES(kCacheLock) { return expired_; }

 private:
  bool may_expire(SegmentId segment) const REQUIRES(kCacheLock);
  std::optional<SegmentId> expire(SegmentId segment) EXCLUDES(kCacheLock);

  CacheMutex& mutex_;
  SegmentTable& table_;
  Graves& graves_;
  DiskTier* const disk_;
  Evictor* const disk_evictor_;
  os::Clock& clock_;
  const std::int64_t time_to_live_ns_;
  std::optional<std::int64_t> foreign_looked_ns_;  // the writer's alone
  SegmentId looked_at_ GUARDED_BY(kCacheLock);     // last; the root: a round begins
  std::uint64_t expired_ GUARDED_BY(kCacheLock) = 0;
};

}  // namespace kvkeep::cache
