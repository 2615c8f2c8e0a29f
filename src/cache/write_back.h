#pragma once

// Write-behind: segments and leaves go to disk once, on the writer, after their parents. No request waits for it.
// Segments that cannot be written now stay in RAM with the reason (Backlog), and are offered again when the reason is
// gone, when something continues them, or when a request uses them.

#include <atomic>
#include <vector>

#include "cache/backlog.h"
#include "cache/cache_options.h"
#include "cache/disk_writer.h"
#include "cache/further_copies.h"
#include "cache/loader.h"
#include "cache/publishing.h"
#include "cache/room.h"

namespace kvkeep::cache {

class WriteBack {
 public:
  // `disk` is null if there is no disk tier, `publishing` if nothing is published.
  WriteBack(const CacheOptions& options, CacheMutex& mutex, SegmentTable& table, RamTier& ram, RamRoom& room,
            Fetcher& fetcher, FurtherCopies& further, Publishing* publishing, DiskWriter* disk, os::Executor& writer);

  // ---- offers ----
  // A segment that is new in RAM enters the writer's queue, or waits until that is shorter.
  void offer(SegmentId segment) REQUIRES(kCacheLock);
  // A point that was to stay in RAM until a request uses it is wanted now.
  void keep_on_disk(SegmentId leaf) REQUIRES(kCacheLock);
  // A request used it: if it waits because today's writes are used up, it counts for more now.
  void note_use(SegmentId segment) REQUIRES(kCacheLock);
  // Other hands removed its file below which others lie: it is written again.
  void write_again(SegmentId segment) REQUIRES(kCacheLock);
  // Rows in a staging buffer, which others wait for, move to memory of their exact size; on the writer.
  void post_settle(SegmentId segment);

  // ---- waiting segments ----
  // About once a second, on the writer. `more_room`: segments for which the keeper granted no room may be written.
  void go_on(bool more_room) EXCLUDES(kCacheLock);
  // Returns when everything offered is written or waits for something else than the queue. Not from the writer.
  void drain() EXCLUDES(kCacheLock);
  // From now on no task posts another.
  void close() { closing_ = true; }
  bool closing() const { return closing_; }

  void count(CacheStats& stats) const REQUIRES(kCacheLock);

 private:
  void enter(SegmentId segment) REQUIRES(kCacheLock);
  void offer_waiting(Waits waits, std::size_t most, bool half) REQUIRES(kCacheLock);
  void take(const Backlog::Item& item) EXCLUDES(kCacheLock);
  void write(SegmentId segment) EXCLUDES(kCacheLock);
  void put_off(SegmentId segment) REQUIRES(kCacheLock);
  // Returns true if a day's writing is limited.
  bool is_limited() const { return disk_ != nullptr && disk_->allowance().limited(); }
  bool disk_is_stopped() const REQUIRES(kCacheLock) { return disk_ != nullptr && disk_->stopped(); }
  void settle(SegmentId segment) EXCLUDES(kCacheLock);
  void hand_on(SegmentId segment) EXCLUDES(kCacheLock);

  const CacheOptions& options_;
  CacheMutex& mutex_;
  SegmentTable& table_;
  RamTier& ram_;
  RamRoom& room_;
  Fetcher& fetcher_;
  FurtherCopies& further_;
  Publishing* const publishing_;
  DiskWriter* const disk_;
  os::Executor& writer_;
  std::atomic<bool> closing_ = false;
  Backlog backlog_ GUARDED_BY(kCacheLock);
  std::uint64_t held_back_ GUARDED_BY(kCacheLock) = 0;  // did not enter the queue at once
  std::uint64_t times_put_off_ GUARDED_BY(kCacheLock) = 0;
};

}  // namespace kvkeep::cache
