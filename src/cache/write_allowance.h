#pragma once

// A day's writing, which the store counts: with a limit, decides what goes to disk and what waits in RAM.

#include <vector>

#include "cache/segment_table.h"
#include "os/clock.h"
#include "policy/admit.h"
#include "store/disk_store.h"

namespace kvkeep::cache {

// Used only from the writer; a call may wait for the store.
class WriteAllowance {
 public:
  // `store` is null if there is no disk; then there is no limit.
  WriteAllowance(CacheMutex& mutex, SegmentTable& table, store::DiskStore* store, os::Clock& clock);

  // Returns true if there is such a limit at all.
  bool limited() const { return limited_; }
  // Returns true if the path to a segment saves enough prefill for a share of today's writes. `path` is its part that
  // is not on disk, from the root.
  bool spares(SegmentId segment, const std::vector<SegmentId>& path) EXCLUDES(kCacheLock);
  // Returns true if something is left. A path is written file by file: files after the one that used it up wait.
  bool left() const;
  // Returns true if there is enough for all.
  bool plenty() const;

 private:
  policy::WriteOffer offer(SegmentId segment, const std::vector<SegmentId>& path) const REQUIRES(kCacheLock);
  Position stop_before(SegmentId leaf) const REQUIRES(kCacheLock);

  CacheMutex& mutex_;
  SegmentTable& table_;
  store::DiskStore* const store_;
  os::Clock& clock_;
  bool limited_ = false;
  double usual_saved_ = 0;  // prefill per byte, of the segments offered to the disk: policy/admit.h
};

}  // namespace kvkeep::cache
