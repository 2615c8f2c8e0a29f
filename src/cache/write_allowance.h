#pragma once

// A day's writing, which the store counts: where it is limited, what of the queue goes to disk and what waits in RAM.

#include <vector>

#include "cache/segment_table.h"
#include "os/clock.h"
#include "policy/admit.h"
#include "store/disk_store.h"

namespace kvkeep::cache {

// Used from the writer alone; the store may have to be waited for.
class WriteAllowance {
 public:
  // Null: there is no disk, and no limit.
  WriteAllowance(CacheMutex& mutex, SegmentTable& table, store::DiskStore* store, os::Clock& clock);

  // There is such a limit at all.
  bool limited() const { return limited_; }
  // Returns true if the path to a segment is worth a share of what may be written today. `path` is what is not on disk
  // of it, from the root.
  bool spares(SegmentId segment, const std::vector<SegmentId>& path) EXCLUDES(kCacheLock);
  // Something is left. A path is written file by file: what comes after the one that took the last of it waits.
  bool left() const;
  // There is enough for all.
  bool plenty() const;

 private:
  policy::WriteOffer offer(SegmentId segment, const std::vector<SegmentId>& path) const REQUIRES(kCacheLock);
  Position stop_before(SegmentId leaf) const REQUIRES(kCacheLock);

  CacheMutex& mutex_;
  SegmentTable& table_;
  store::DiskStore* const store_;
  os::Clock& clock_;
  bool limited_ = false;
  double usual_worth_ = 0;  // of what was offered to the disk, see policy/admit.h
};

}  // namespace kvkeep::cache
