#pragma once

// Seeking: asks the shared tier for state of a prompt that this server lacks, and makes the table know what is there.
// Found segments and leaves enter it like files of other servers do (peer.h), with the shared tier as the only copy;
// requests then lease, load and restore them like all others. No engine thread waits for it.
//
// Memory of found state is bounded (CacheOptions::most_shared): the copies that were found longest ago are forgotten
// first, unless something hangs below them or a request holds them.

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/types.h"
#include "cache/forgetting.h"
#include "cache/published.h"
#include "cache/segment_table.h"
#include "cache/shared_access.h"
#include "cache/tiers.h"
#include "cache/write_back.h"

namespace kvkeep::cache {

class Seeking {
 public:
  Seeking(CacheMutex& mutex, SegmentTable& table, RamTier& ram, Forgetting& forgetting, WriteBack& write_back,
          Published& published, share::SharedStore& store, const SharedTier& tier, os::Clock& clock,
          os::Executor& searcher, std::size_t most)
      : mutex_(mutex),
        table_(table),
        ram_(ram),
        forgetting_(forgetting),
        write_back_(write_back),
        published_(published),
        store_(store),
        tier_(tier),
        clock_(clock),
        searcher_(searcher),
        most_(most) {}

  // Returns false if a look-up would find nothing for now: the tier is not read, or does not answer.
  bool possible() const { return store_.readable(); }
  // See Cache::search_patience_ms.
  std::optional<double> patience_ms(TokenSpan prompt, const Tenant& tenant) const EXCLUDES(kCacheLock);
  // Calls `done` from the searcher, in any case.
  void seek(SeekOrder order, std::function<void(SeekResult)> done);

 private:
  SeekResult answer(const SeekOrder& order);
  std::optional<double> patience_ms(TokenSpan prompt, Position known) const;
  Position known_end(TokenSpan prompt, const Tenant& tenant) const EXCLUDES(kCacheLock);
  std::vector<format::SegmentHeader> find(const SeekOrder& order, Position known, std::int64_t deadline_ns,
                                          SeekResult& result);
  void add_windows(const SeekOrder& order, std::int64_t deadline_ns, std::vector<format::SegmentHeader>& found);
  void adopt(std::vector<format::SegmentHeader> found, const Tenant& tenant) EXCLUDES(kCacheLock);
  void place(const format::SegmentHeader& header, const index::Placement& placement) REQUIRES(kCacheLock);
  void bound() REQUIRES(kCacheLock);

  struct Found {
    SegmentId segment;
    std::uint64_t serial = 0;
  };
  CacheMutex& mutex_;
  SegmentTable& table_;
  RamTier& ram_;
  Forgetting& forgetting_;
  WriteBack& write_back_;
  Published& published_;
  share::SharedStore& store_;
  const SharedTier& tier_;
  os::Clock& clock_;
  os::Executor& searcher_;
  const std::size_t most_;
  std::deque<Found> found_ GUARDED_BY(kCacheLock);  // oldest first
};

}  // namespace kvkeep::cache
