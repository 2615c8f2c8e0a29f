#pragma once

// Segments that cannot be had any more: damaged ones and leaves, with all that hangs below them or is built on them.
// Dead at once, they leave the table and every tier as soon as nobody holds any of it. So it is also here that leases
// and tracks give back what they held.

#include <optional>
#include <span>
#include <vector>

#include "cache/lease.h"
#include "cache/ram_tier.h"
#include "cache/segment_table.h"
#include "cache/tier.h"

namespace kvkeep::cache {

class Graves final : public Releaser {
 public:
  // `lower` are all tiers below RAM; their writers drop what is erased.
  Graves(CacheMutex& mutex, SegmentTable& table, RamTier& ram, std::vector<LowerTier> lower)
      : mutex_(mutex), table_(table), ram_(ram), lower_(std::move(lower)) {}

  void release(std::span<const SegmentId> held) override EXCLUDES(kCacheLock);

  // Never offered again from now on, nor what is built on it; gone with the next sweep that finds nobody holds it.
  void bury(SegmentId segment) REQUIRES(kCacheLock);
  void sweep() REQUIRES(kCacheLock);
  // Counts and tells what is lost with it, and buries it.
  void report_damaged(SegmentId segment) EXCLUDES(kCacheLock);
  // A tier that promised nothing, or another of several, does not have it any more.
  void forget_copy(SegmentId segment, TierId tier) REQUIRES(kCacheLock);
  // Takes it out of every tier and the table. Precondition: nobody holds it, nothing hangs below it.
  void erase(SegmentId segment) REQUIRES(kCacheLock);
  // Where the first dead segment on the path to `segment` begins.
  std::optional<Position> dead_from(SegmentId segment) const REQUIRES(kCacheLock);
  std::uint64_t damaged() const REQUIRES(kCacheLock) { return damaged_; }

 private:
  void erase_subtree(SegmentId root) REQUIRES(kCacheLock);
  void log_damaged(SegmentId segment) const REQUIRES(kCacheLock);

  CacheMutex& mutex_;
  SegmentTable& table_;
  RamTier& ram_;
  const std::vector<LowerTier> lower_;
  std::vector<SegmentId> dead_ GUARDED_BY(kCacheLock);  // roots of subtrees to drop when nobody holds them
  std::uint64_t damaged_ GUARDED_BY(kCacheLock) = 0;
};

}  // namespace kvkeep::cache
