#pragma once

// Publishing: segments and leaves that this server computed are offered to the shared tier, after the disk has them (or
// at once without a disk), each after everything that leads to it. Nothing waits for that or depends on it: the entry
// of a published segment only says that it was offered. If it leaves this server's own tiers, the next request looks it
// up in the shared tier like state of others.
//
// Worth publishing is state that is deep enough or wanted by several prompts, and that readers get faster than they
// prefill it (policy/share.h). Whole states are published decoded, since a reader may lack what they are built on.

#include <optional>
#include <vector>

#include "cache/loader.h"
#include "cache/published.h"
#include "cache/segment_table.h"
#include "cache/tiers.h"

namespace kvkeep::cache {

class Publishing {
 public:
  Publishing(CacheMutex& mutex, SegmentTable& table, RamTier& ram, Fetcher& fetcher, Published& published,
             Forgetting& forgetting, share::SharedStore& store, const SharedTier& tier, const Distrust& distrust,
             ByteCount most_read)
      : mutex_(mutex),
        table_(table),
        ram_(ram),
        fetcher_(fetcher),
        published_(published),
        forgetting_(forgetting),
        store_(store),
        tier_(tier),
        distrust_(distrust),
        most_read_(most_read) {}

  // A segment or leaf that is in RAM. Offers it after the part of its path that was not offered, of which RAM or the
  // disk must have all. Reads a bounded part from the disk; the next offer of the conversation goes on. On the
  // writer; does not wait for the shared tier.
  void offer(SegmentId segment) EXCLUDES(kCacheLock);

 private:
  std::vector<SegmentId> unpublished_path(SegmentId segment) const REQUIRES(kCacheLock);
  bool is_worth_it(SegmentId segment) const REQUIRES(kCacheLock);
  std::optional<share::Publication> describe(SegmentId segment) const EXCLUDES(kCacheLock);
  bool publish(SegmentId segment, ByteCount& may_read) EXCLUDES(kCacheLock);
  bool complete(SegmentId segment, share::Publication& made, ByteCount& may_read) EXCLUDES(kCacheLock);

  CacheMutex& mutex_;
  SegmentTable& table_;
  RamTier& ram_;
  Fetcher& fetcher_;
  Published& published_;
  Forgetting& forgetting_;
  share::SharedStore& store_;
  const SharedTier& tier_;
  const Distrust& distrust_;
  const ByteCount most_read_;   // of one offer
  std::uint64_t failures_ = 0;  // of the store so far, by which it lacks offers; used only on the writer
};

// The path to a segment, or to the segment of a leaf, as objects of the shared tier name it.
std::vector<format::PathStep> shared_path(const SegmentTable& table, SegmentId segment) REQUIRES(kCacheLock);

}  // namespace kvkeep::cache
