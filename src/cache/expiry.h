#pragma once

// A time to live (CacheOptions::time_to_live_ns): state that no request used for that long leaves all tiers, the ends
// of paths first, in small portions on the writer. If several servers use a directory, the keeper removes files.

#include <optional>

#include "cache/evictor.h"
#include "cache/forgetting.h"
#include "cache/tiers.h"

namespace kvkeep::cache {

class Expiry {
 public:
  // The disk and its evictor are null if there is no disk tier. `time_to_live_ns` 0: nothing expires.
  Expiry(CacheMutex& mutex, SegmentTable& table, Forgetting& forgetting, DiskTier* disk, Evictor* disk_evictor,
         os::Clock& clock, std::int64_t time_to_live_ns)
      : mutex_(mutex),
        table_(table),
        forgetting_(forgetting),
        disk_(disk),
        disk_evictor_(disk_evictor),
        clock_(clock),
        time_to_live_ns_(time_to_live_ns) {}

  bool wanted() const { return time_to_live_ns_ > 0; }
  // Looks at some segments, and forgets those whose time is over. Returns false after the last portion of a round.
  bool next_portion() EXCLUDES(kCacheLock);
  // Files of other models: no server's index knows them, so the directory's keeper looks at their times now and then.
  void expire_foreign();
  std::uint64_t expired() const REQUIRES(kCacheLock) { return expired_; }

 private:
  bool may_expire(SegmentId segment) const REQUIRES(kCacheLock);
  std::optional<SegmentId> expire(SegmentId segment) EXCLUDES(kCacheLock);

  CacheMutex& mutex_;
  SegmentTable& table_;
  Forgetting& forgetting_;
  DiskTier* const disk_;
  Evictor* const disk_evictor_;
  os::Clock& clock_;
  const std::int64_t time_to_live_ns_;
  std::optional<std::int64_t> foreign_looked_ns_;  // used only on the writer
  SegmentId looked_at_ GUARDED_BY(kCacheLock);     // the last one; the root: a round begins
  std::uint64_t expired_ GUARDED_BY(kCacheLock) = 0;
};

}  // namespace kvkeep::cache
