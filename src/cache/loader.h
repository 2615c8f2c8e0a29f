#pragma once

// Loading: segments that lie only in a lower tier come into RAM on that tier's reader, next to the engine thread.

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "cache/forgetting.h"
#include "cache/lease.h"
#include "cache/room.h"
#include "cache/state_chains.h"

namespace kvkeep::cache {

// Fetches the bytes of one segment or leaf from the fastest tier that has them, for a state that is built on others
// with all of these. Forgets a copy that a tier turns out not to have.
class Fetcher {
 public:
  using Bytes = TierPort::Bytes;
  // Called, with the cache's lock, for a segment or leaf that came from the shared tier and is in RAM now.
  using Arrived = std::function<void(SegmentId)>;
  Fetcher(CacheMutex& mutex, SegmentTable& table, RamTier& ram, RamRoom& room, Forgetting& forgetting,
          StateChains& chains, std::vector<LowerTier> lower, os::Clock& clock, Arrived arrived = {})
      : mutex_(mutex),
        table_(table),
        ram_(ram),
        room_(room),
        forgetting_(forgetting),
        chains_(chains),
        lower_(std::move(lower)),
        clock_(clock),
        arrived_(std::move(arrived)) {}

  // One fetch under way.
  struct Fetch {
    std::vector<StateChains::Link> chain;
    std::size_t next = 0;            // of the chain
    os::Executor* reader = nullptr;  // where to go on
    bool gone = false;               // it failed because others dropped chain[next]
  };
  // Precondition: the segment is held.
  Fetch begin(SegmentId segment) const EXCLUDES(kCacheLock);
  // Reads and decodes what the fetch lacks. Returns null if the next tier to read belongs to fetch.reader and that is
  // not `here`: call it again there. With null for `here` reads everything here.
  Result<Bytes> advance(Fetch& fetch, const os::Executor* here, LoadResult& result, LoadTime& time)
      EXCLUDES(kCacheLock);
  // Reads everything here.
  Result<Bytes> fetch(SegmentId segment) EXCLUDES(kCacheLock);
  // These will be fetched next, in this order: tells the tiers that have them. Precondition: they are held.
  void expect(const std::vector<SegmentId>& segments) EXCLUDES(kCacheLock);
  // How long reads of these may take together at tiers where prefilling is faster then. Precondition: they are held.
  double patience_ms(const std::vector<SegmentId>& segments) EXCLUDES(kCacheLock);
  // Bytes that were read before they were asked for took time as well.
  void count_time_ahead(LoadResult& result) const;
  // Stores a whole state as differences from its base, which it fetches, if that saves something.
  void build(SegmentId leaf) EXCLUDES(kCacheLock);

 private:
  const LowerTier* tier_of(SegmentId segment) const EXCLUDES(kCacheLock);
  const LowerTier* find_tier(SegmentId segment) const REQUIRES(kCacheLock);
  std::vector<std::vector<TierItem>> items_of(const std::vector<SegmentId>& segments) const EXCLUDES(kCacheLock);
  Status read(Fetch& fetch, const LowerTier& tier, LoadResult& result, LoadTime& time);
  void note_failure(Fetch& fetch, const LowerTier& tier, const Error& error);
  void admit(SegmentId segment, const LowerTier& tier, const Bytes& bytes) EXCLUDES(kCacheLock);

  CacheMutex& mutex_;
  SegmentTable& table_;
  RamTier& ram_;
  RamRoom& room_;
  Forgetting& forgetting_;
  StateChains& chains_;
  const std::vector<LowerTier> lower_;
  os::Clock& clock_;
  const Arrived arrived_;
};

// Fills leases. On the disk's reader, one load comes after the other. On that of another tier they take turns, a
// segment each, so that a load of a few tokens does not wait for one of many.
class Loader {
 public:
  using Gone = std::function<void(const format::SegmentName&)>;
  // Begins on `reader`, the disk's. Calls `gone` for files that others dropped.
  Loader(Fetcher& fetcher, os::Executor& reader, os::Clock& clock, Gone gone)
      : fetcher_(fetcher), reader_(reader), clock_(clock), gone_(std::move(gone)) {}

  // See Cache::load.
  void load(std::shared_ptr<Lease> lease, TokenRange range, std::function<void(LoadResult)> done,
            std::optional<Position> point);
  // Returns true while some load has not reported its result.
  bool busy() const { return alive_.use_count() > 1; }

 private:
  struct Job;
  using JobPtr = std::shared_ptr<Job>;
  void post(const JobPtr& job, os::Executor& there);
  void run(const JobPtr& job, os::Executor& here);
  // Returns true if it ended; false if it was posted to go on.
  bool go_on(const JobPtr& job, os::Executor& here);
  // Tells the tiers what is read next: for this load, and then for the others under way.
  void announce(const JobPtr& job) EXCLUDES(mutex_);
  void leave(const JobPtr& job) EXCLUDES(mutex_);
  std::vector<SegmentId> expected() const REQUIRES(mutex_);

  Fetcher& fetcher_;
  os::Executor& reader_;
  os::Clock& clock_;
  const Gone gone_;
  Mutex mutex_;
  std::vector<std::weak_ptr<Job>> under_way_ GUARDED_BY(mutex_);  // the latest first; each holds its lease
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace kvkeep::cache
