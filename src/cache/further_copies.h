#pragma once

// Copies in tiers below RAM and disk: each new segment is offered to each of them, on its own writer, and may be
// refused. No request waits for that or depends on it: a copy there is one more place to read from.

#include <memory>
#include <vector>

#include "cache/evictor.h"
#include "cache/forgetting.h"
#include "cache/tiers.h"

namespace kvkeep::cache {

class FurtherCopies {
 public:
  // Made before anything is in the table: each tier of `lower` that is not the disk has an evictor of its own.
  FurtherCopies(CacheMutex& mutex, SegmentTable& table, RamTier& ram, Forgetting& forgetting,
                const std::vector<LowerTier>& lower, os::Clock& clock);

  // RAM's bytes go to each tier that has no copy and whose queue holds at most kMostWaiting bytes.
  void offer(SegmentId segment) EXCLUDES(kCacheLock);
  // Returns when everything offered is there or refused.
  void drain();

 private:
  struct Further {
    LowerTier tier;
    std::unique_ptr<Evictor> evictor;
  };
  void put(std::size_t which, SegmentId segment, std::uint64_t serial, const TierPort::Bytes& bytes);
  static Status put_with_room(const Further& further, const TierItem& item, const TierPort::Bytes& bytes);

  CacheMutex& mutex_;
  SegmentTable& table_;
  RamTier& ram_;
  std::vector<Further> further_;
  std::vector<ByteCount> waiting_ GUARDED_BY(kCacheLock);  // by tier
};

}  // namespace kvkeep::cache
