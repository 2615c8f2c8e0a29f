#pragma once

// Chooses what leaves a tier that has no room: one evictor for each tier. It keeps the order of leaving as the table
// changes, says what may not leave, and has the tier drop what policy chose.
//
// A durable tier is left from the ends of paths, for the next process must find no hole. From another one whatever has
// a copy elsewhere leaves in any order; of what has none the ends of paths leave, and are forgotten with that.

#include <array>
#include <optional>
#include <vector>

#include "cache/graves.h"
#include "cache/segment_table.h"
#include "cache/tier.h"
#include "os/clock.h"
#include "policy/evict_order.h"
#include "policy/turnover.h"

namespace kvkeep::cache {

class Evictor final : public TableWatcher {
 public:
  // Of one tier; `lower` are all below RAM. Made before anything is in the table, which tells it of changes from then
  // on.
  Evictor(CacheMutex& mutex, SegmentTable& table, Graves& graves, TierPort& port, TierId tier,
          std::vector<LowerTier> lower, const policy::Score& score, os::Clock& clock);

  struct Need {
    ByteCount bytes;           // about so much is to leave
    ByteCount least = bytes;   // so much will do once many have left: requests want the lock as well
    ByteCount limit = {};      // of the tier, by which its turnover is measured
    bool points_only = false;  // rows stay: it is points and windows that take too much
  };
  // Of nothing: no segment may leave.
  struct Freed {
    ByteCount bytes;
    std::size_t count = 0;
  };
  Freed make_room(const Need& need) EXCLUDES(kCacheLock);
  // This one leaves the tier. What that freed: nothing if it may not leave (any more).
  Result<ByteCount> evict(SegmentId segment) EXCLUDES(kCacheLock);

  void changed(SegmentId segment) override REQUIRES(kCacheLock);
  ByteCount memory() const REQUIRES(kCacheLock) { return order_.memory(); }
  std::uint64_t evicted() const REQUIRES(kCacheLock) { return evicted_; }

 private:
  policy::EvictCandidate candidate(SegmentId segment) const REQUIRES(kCacheLock);
  void describe_leaf(SegmentId leaf, policy::EvictCandidate& candidate) const REQUIRES(kCacheLock);
  bool durable() const { return port_.promise() == Promise::kDurable; }
  bool elsewhere(const Entry& entry, Promise least) const;
  bool stays(SegmentId segment) const REQUIRES(kCacheLock);
  bool completes_unwritten_window(SegmentId leaf) const REQUIRES(kCacheLock);
  bool may_leave(SegmentId segment) const REQUIRES(kCacheLock);
  std::vector<SegmentId> victims(ByteCount needed, bool points_only) EXCLUDES(kCacheLock);
  void note_left(ByteCount freed, ByteCount limit) EXCLUDES(kCacheLock);

  CacheMutex& mutex_;
  SegmentTable& table_;
  Graves& graves_;
  TierPort& port_;
  const TierId tier_;
  const std::vector<LowerTier> lower_;
  os::Clock& clock_;
  policy::EvictOrder order_ GUARDED_BY(kCacheLock);
  policy::Turnover turnover_ GUARDED_BY(kCacheLock);
  // The table's changes when nothing could leave: of all, and of points. Until the next one nothing can.
  std::array<std::optional<std::uint64_t>, 2> nothing_left_ GUARDED_BY(kCacheLock);
  std::uint64_t evicted_ GUARDED_BY(kCacheLock) = 0;
};

}  // namespace kvkeep::cache
