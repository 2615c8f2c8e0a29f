#pragma once

// Chooses what leaves a tier that has no room: one evictor for each tier. It keeps the order of leaving as the table
// changes, knows what may not leave, and makes the tier drop what policy chose.
//
// Segments leave a durable tier from the ends of paths, for the next process must find no hole. They leave another tier
// in any order if a copy is elsewhere; those without a copy leave from the ends of paths, and are forgotten.

#include <array>
#include <optional>
#include <vector>

#include "cache/cache_stats.h"
#include "cache/forgetting.h"
#include "cache/segment_table.h"
#include "cache/tier.h"
#include "os/clock.h"
#include "policy/evict_order.h"

namespace kvkeep::cache {

class Evictor final : public TableWatcher {
 public:
  // `lower` are all tiers below RAM. Make it before anything is in the table, which reports changes to it from then on.
  Evictor(CacheMutex& mutex, SegmentTable& table, Forgetting& forgetting, TierPort& port, TierId tier,
          std::vector<LowerTier> lower, os::Clock& clock);

  struct Need {
    ByteCount bytes;           // about this much is to leave
    ByteCount least = bytes;   // this much is enough once many have left: requests want the lock as well
    bool points_only = false;  // rows stay: points and windows take too much
  };
  // Both are 0 if no segment may leave.
  struct Freed {
    ByteCount bytes;
    std::size_t count = 0;
  };
  Freed make_room(const Need& need) EXCLUDES(kCacheLock);
  // Makes this one leave the tier. Returns the freed bytes: 0 if it may not leave (any more).
  Result<ByteCount> evict(SegmentId segment, EvictCause cause) EXCLUDES(kCacheLock);

  void changed(SegmentId segment) override REQUIRES(kCacheLock);
  ByteCount memory() const REQUIRES(kCacheLock) { return order_.memory(); }
  const EvictionCounts& evicted() const REQUIRES(kCacheLock) { return evicted_; }

 private:
  policy::EvictCandidate candidate(SegmentId segment) const REQUIRES(kCacheLock);
  void describe_leaf(SegmentId leaf, policy::EvictCandidate& candidate) const REQUIRES(kCacheLock);
  bool durable() const { return port_.promise() == Promise::kDurable; }
  explain::LossCause loss_by(EvictCause cause) const;
  bool elsewhere(const Entry& entry, Promise least) const;
  bool stays(SegmentId segment) const REQUIRES(kCacheLock);
  bool completes_unwritten_window(SegmentId leaf) const REQUIRES(kCacheLock);
  bool may_leave(SegmentId segment) const REQUIRES(kCacheLock);
  std::vector<SegmentId> victims(ByteCount needed, bool points_only) EXCLUDES(kCacheLock);

  CacheMutex& mutex_;
  SegmentTable& table_;
  Forgetting& forgetting_;
  TierPort& port_;
  const TierId tier_;
  const std::vector<LowerTier> lower_;
  os::Clock& clock_;
  policy::EvictOrder order_ GUARDED_BY(kCacheLock);
  // The table's changes when nothing could leave: of all, and of points. Until the next change nothing can.
  std::array<std::optional<std::uint64_t>, 2> nothing_left_ GUARDED_BY(kCacheLock);
  EvictionCounts evicted_ GUARDED_BY(kCacheLock);
};

}  // namespace kvkeep::cache
