#pragma once

// Other servers on the same directory, as the cache sees them: segments that they store become known here, segments
// that they remove are forgotten, their uses count as uses, and the keeper makes room for all. Files that a former
// process of this server left on disk are adopted in the same way.

#include <vector>

#include "cache/room.h"
#include "cache/state_chains.h"
#include "cache/write_back.h"

namespace kvkeep::cache {

class Peer {
 public:
  Peer(CacheMutex& mutex, SegmentTable& table, RamTier& ram, Forgetting& forgetting, StateChains& chains,
       DiskRoom& disk, WriteBack& write_back, os::Clock& clock, os::Executor& writer)
      : mutex_(mutex),
        table_(table),
        ram_(ram),
        forgetting_(forgetting),
        chains_(chains),
        disk_(disk),
        write_back_(write_back),
        clock_(clock),
        writer_(writer) {}

  // Indexes the files that the disk recovered.
  void recover() EXCLUDES(kCacheLock);
  // On the writer, about once a second. Returns true if segments that the keeper granted no room for may be written.
  bool look(store::Look look) EXCLUDES(kCacheLock);
  // Others removed these files. Files below them are orphans now: a conversation may have gone on before this server
  // noticed. If RAM has the missing segments, they are written again.
  void forget_gone(const std::vector<format::SegmentName>& gone) EXCLUDES(kCacheLock);

 private:
  void adopt(std::vector<store::StoredSegment> found, bool looked) EXCLUDES(kCacheLock);
  bool place(const store::StoredSegment& found, const index::Placement& placement) REQUIRES(kCacheLock);
  bool leave_over(store::StoredSegment found, bool orphan, bool fresh) REQUIRES(kCacheLock);
  bool note_written(const format::SegmentHeader& header) REQUIRES(kCacheLock);
  void note_used(const std::vector<store::UsedSegment>& used) EXCLUDES(kCacheLock);
  void forget_file(SegmentId segment) REQUIRES(kCacheLock);
  bool has_orphans() const EXCLUDES(kCacheLock);

  CacheMutex& mutex_;
  SegmentTable& table_;
  RamTier& ram_;
  Forgetting& forgetting_;
  StateChains& chains_;
  DiskRoom& disk_;
  WriteBack& write_back_;
  os::Clock& clock_;
  os::Executor& writer_;
  std::vector<store::StoredSegment> orphans_ GUARDED_BY(kCacheLock);  // others' files, seen in one look
};

}  // namespace kvkeep::cache
