#pragma once

// Forgets lost segments and leaves, with everything below them or built on them. Not offered any more at once, they
// leave the table and every tier as soon as no lease or track holds any of it. Therefore leases and tracks give back
// here what they held.

#include <optional>
#include <span>
#include <vector>

#include "cache/lease.h"
#include "cache/lost_memory.h"
#include "cache/segment_table.h"
#include "cache/tier.h"
#include "cache/tiers.h"
#include "os/clock.h"

namespace kvkeep::cache {

class Forgetting final : public Releaser {
 public:
  // `lower` are all tiers below RAM; their writers drop what is erased. The clock tells when state was lost.
  Forgetting(CacheMutex& mutex, SegmentTable& table, RamTier& ram, std::vector<LowerTier> lower, os::Clock& clock)
      : mutex_(mutex), table_(table), ram_(ram), lower_(std::move(lower)), clock_(clock) {}

  void release(std::span<const SegmentId> held) override EXCLUDES(kCacheLock);

  // The segment, and what is built on it, is never offered again; the next sweep that finds it unheld removes it, and
  // remembers the cause. nullopt: no request will ask for it, so that it is not worth remembering.
  void forget(SegmentId segment, std::optional<explain::LossCause> cause) REQUIRES(kCacheLock);
  void sweep() REQUIRES(kCacheLock);
  // Counts and logs the loss, and forgets the segment. `cause`: kDamaged or kRefused.
  void report_damaged(SegmentId segment, explain::LossCause cause = explain::LossCause::kDamaged) EXCLUDES(kCacheLock);
  // A tier that promised nothing, or one of several copies, does not have it any more.
  void forget_copy(SegmentId segment, TierId tier) REQUIRES(kCacheLock);
  // Takes it out of every tier and the table. Precondition: it is not held, and nothing hangs below it.
  void erase(SegmentId segment, std::optional<explain::LossCause> cause) REQUIRES(kCacheLock);
  // Returns what Cache::lost_state() returns, also for state that is forgotten but still held, by a writer for
  // instance.
  std::optional<explain::LostState> lost(TokenSpan prompt, TokenRange unused, const Tenant& tenant,
                                         const FingerprintHash& key) const REQUIRES(kCacheLock);
  // Where the first forgotten segment on the path to `segment` begins; nullopt if none is forgotten.
  std::optional<Position> forgotten_from(SegmentId segment) const REQUIRES(kCacheLock);
  // Returns true if a request or a command had a part of the path to `segment` forgotten, which something still holds.
  bool is_unwanted(SegmentId segment) const REQUIRES(kCacheLock);
  std::uint64_t damaged() const REQUIRES(kCacheLock) { return damaged_; }

 private:
  void erase_subtree(SegmentId root) REQUIRES(kCacheLock);
  void log_damaged(SegmentId segment, explain::LossCause cause) const REQUIRES(kCacheLock);

  CacheMutex& mutex_;
  SegmentTable& table_;
  RamTier& ram_;
  const std::vector<LowerTier> lower_;
  os::Clock& clock_;
  LostMemory lost_ GUARDED_BY(kCacheLock);
  std::vector<SegmentId> roots_ GUARDED_BY(kCacheLock);  // roots of subtrees to drop once they are not held
  std::uint64_t damaged_ GUARDED_BY(kCacheLock) = 0;
};

}  // namespace kvkeep::cache
