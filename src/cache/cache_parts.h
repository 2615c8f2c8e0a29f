#pragma once

// The parts of a cache. Only cache.cc and cache_parts.cc include this: each part knows only those that are made before
// it.

#include <atomic>
#include <memory>
#include <vector>

#include "cache/cache.h"
#include "cache/cache_stats.h"
#include "cache/disk_writer.h"
#include "cache/evictor.h"
#include "cache/expiry.h"
#include "cache/forgetting.h"
#include "cache/further_copies.h"
#include "cache/loader.h"
#include "cache/peer.h"
#include "cache/publishing.h"
#include "cache/room.h"
#include "cache/seeking.h"
#include "cache/segment_table.h"
#include "cache/state_chains.h"
#include "cache/tiers.h"
#include "cache/write_back.h"

namespace kvkeep::cache {

struct Cache::Parts {
  Parts(CacheOptions given, std::unique_ptr<store::DiskStore> store, os::Clock& given_clock, os::Executor& given_writer,
        os::Executor& given_reader, std::vector<FurtherTier> given_further, SharedSetup given_shared);

  bool accepts() const { return !distrust && (disk != nullptr || options.ram_budget > ByteCount{}); }
  // Gives a segment that was just added to the table its bytes, and offers it to the disk.
  void admit(SegmentId added, TierPort::Bytes bytes, Keeping keeping) REQUIRES(kCacheLock);
  bool add_leaf(index::Cursor at, TokenRange range, format::PartKind kind, const PrefixHash& begin_hash,
                const PrefixHash& end_hash, TierPort::Bytes bytes, Keeping keeping) EXCLUDES(kCacheLock);
  void touch(SegmentId segment) REQUIRES(kCacheLock) {
    if (disk != nullptr) disk->post_touch(segment);
  }
  // Counts a use of what is leased, and returns it: see Cache::note_use.
  std::vector<SegmentId> use(const Lease& lease, std::optional<Position> restored) EXCLUDES(kCacheLock);
  // Tells the shared tier that requests used these, for its eviction: a server that only reads does so as well, or else
  // what only readers use would leave.
  void report_uses(const std::vector<SegmentId>& used) EXCLUDES(kCacheLock);
  void expire_all();
  void share(store::Look look);
  void finish();

  const CacheOptions options;
  os::Clock& clock;
  os::Executor& writer;
  os::Executor& reader;
  store::BufferPool pool;
  std::atomic<bool> ticking = false;
  mutable CacheMutex mutex;
  SegmentTable table;
  RamTier ram;
  Distrust distrust;
  const std::unique_ptr<DiskTier> disk;  // null without a disk tier, as all that needs one
  const std::vector<FurtherTier> further;
  const SharedSetup shared;
  const std::unique_ptr<SharedTier> shared_tier;  // null without a shared tier, as publishing and seeking
  const std::vector<LowerTier> lower;
  Forgetting forgetting;
  Evictor ram_evictor;
  RamRoom ram_room;
  const std::unique_ptr<Evictor> disk_evictor;
  const std::unique_ptr<DiskRoom> disk_room;
  FurtherCopies copies;
  StateChains chains;
  Fetcher fetcher;
  Published published;
  const std::unique_ptr<DiskWriter> disk_writer;
  const std::unique_ptr<Publishing> publishing;
  WriteBack write_back;
  const std::unique_ptr<Seeking> seeking;
  const std::unique_ptr<Peer> peer;
  Loader loader;
  Expiry expiry;
  std::uint64_t stored GUARDED_BY(kCacheLock) = 0;
  ByteCount stored_bytes GUARDED_BY(kCacheLock);
  IdleTimes reuse GUARDED_BY(kCacheLock);
  std::uint64_t refused GUARDED_BY(kCacheLock) = 0;
};

}  // namespace kvkeep::cache
