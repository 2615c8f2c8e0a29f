#pragma once

// Writing to the disk tier, on the writer: how much may be written today, and how the part of a path that is not on
// disk gets there, from the root on, so that no file lies below a hole.

#include <vector>

#include "cache/cache_options.h"
#include "cache/forgetting.h"
#include "cache/room.h"
#include "cache/segment_table.h"
#include "cache/tiers.h"
#include "os/clock.h"
#include "policy/admit.h"
#include "store/disk_store.h"

namespace kvkeep::cache {

// A day's writing, which the store counts: with a limit, decides what goes to disk and what waits in RAM. Used only
// from the writer; a call may wait for the store.
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

// Writes segments and leaves to the disk. Used only from the writer, except the methods under the lock.
class DiskWriter {
 public:
  DiskWriter(const CacheOptions& options, CacheMutex& mutex, SegmentTable& table, RamTier& ram, Forgetting& forgetting,
             DiskRoom& disk, const Distrust& distrust, os::Clock& clock)
      : options_(options),
        mutex_(mutex),
        table_(table),
        ram_(ram),
        forgetting_(forgetting),
        disk_(disk),
        distrust_(distrust),
        clock_(clock),
        allowance_(mutex, table, &disk.tier().store(), clock) {}

  struct Outcome {
    Waits waits = Waits::kContinuation;   // what the segment waits for if it is not on disk now
    std::vector<SegmentId> put_off = {};  // leaves that wait until more may be written
  };
  // Writes the part of the path to a segment that is not on disk, and leaves that wait there.
  Outcome write_path(SegmentId segment) EXCLUDES(kCacheLock);
  const WriteAllowance& allowance() const { return allowance_; }
  // Returns true if the file system had no room when something was written last.
  bool stopped() const REQUIRES(kCacheLock) { return stopped_; }
  void count(CacheStats& stats) const REQUIRES(kCacheLock);

 private:
  std::vector<SegmentId> unwritten_path(SegmentId segment) const REQUIRES(kCacheLock);
  std::vector<SegmentId> unwritten_leaves(SegmentId segment) REQUIRES(kCacheLock);
  bool takes_along(SegmentId leaf) const REQUIRES(kCacheLock);
  bool leaves_no_hole(SegmentId segment) const REQUIRES(kCacheLock);
  bool write_one(SegmentId segment) EXCLUDES(kCacheLock);
  void note_disk_room() REQUIRES(kCacheLock);
  void note_refusal(const Error& error) REQUIRES(kCacheLock);

  const CacheOptions& options_;
  CacheMutex& mutex_;
  SegmentTable& table_;
  RamTier& ram_;
  Forgetting& forgetting_;
  DiskRoom& disk_;
  const Distrust& distrust_;
  os::Clock& clock_;
  WriteAllowance allowance_;
  bool stopped_ GUARDED_BY(kCacheLock) = false;  // as the log said last
  bool said_stopped_ GUARDED_BY(kCacheLock) = false;
  std::uint64_t refused_ GUARDED_BY(kCacheLock) = 0;
  std::uint64_t stops_ GUARDED_BY(kCacheLock) = 0;
  Moved written_ GUARDED_BY(kCacheLock);
};

}  // namespace kvkeep::cache
