#pragma once

// Whole states that are stored as differences from an earlier one on their path, their base: a state that grew by a
// turn is mostly what it was, moved apart. Chains of at most kMaxBuiltStates; what is built on a base leaves before it.
//
// Only its position names a base: on one path there is one whole state at a position. That it is the right one,
// and that what comes out are the bytes that went in, is verified whenever a state is decoded.

#include <optional>
#include <vector>

#include "cache/cache_options.h"
#include "cache/forgetting.h"
#include "cache/room.h"

namespace kvkeep::cache {

class StateChains {
 public:
  using Bytes = TierPort::Bytes;
  // Bases are chosen by what the tier has that the new state goes to: the disk, or RAM if there is none.
  StateChains(CacheMutex& mutex, SegmentTable& table, RamTier& ram, RamRoom& room, Forgetting& forgetting,
              bool has_disk)
      : mutex_(mutex), table_(table), ram_(ram), room_(room), forgetting_(forgetting), has_disk_(has_disk) {}

  // ---- decoding ----
  // A segment or leaf, what is stored of it, and what comes out: the same, unless it is built on the one before it.
  struct Link {
    TierItem item;
    Bytes stored;  // null: not in RAM
    Bytes state;   // null: not decoded
  };
  // All that must be had for a segment's bytes: itself last, before it what it is built on, from one that is there.
  std::vector<Link> chain_to(SegmentId segment) const REQUIRES(kCacheLock);
  // Fills link.state. Precondition: the stored bytes are there, and the state of the one before it if it is built.
  static Status decode(const Link* before, Link& link);
  // Returns true if decoding the leaf needs nothing that must be read.
  bool in_ram(SegmentId leaf) const REQUIRES(kCacheLock);
  // Keeps the decoded state while there is room that no other state wants. The leaf is held.
  void hold_state(SegmentId leaf, Bytes state) EXCLUDES(kCacheLock);
  // Returns the state on which a recovered one is built, the root if it is built on none, nullopt if its base was lost.
  // Bases are recovered first.
  std::optional<SegmentId> recovered_base(SegmentId leaf, Position base) const REQUIRES(kCacheLock);

  // ---- encoding ----
  // A new state and the one that it may be built on, both held.
  struct Build {
    SegmentId leaf;
    SegmentId base;
    PrefixHash base_hash;
    Bytes state;
  };
  std::optional<Build> begin_build(SegmentId leaf) EXCLUDES(kCacheLock);
  // Stores the differences in the place of the state, if that saves something. Returns null if the base cannot be read.
  void finish_build(const Build& build, const Bytes& base_state) EXCLUDES(kCacheLock);
  std::uint64_t built() const REQUIRES(kCacheLock) { return built_; }
  ByteCount saved() const REQUIRES(kCacheLock) { return saved_; }

 private:
  SegmentId base_for(SegmentId leaf) const REQUIRES(kCacheLock);
  bool carries_more(SegmentId base) const REQUIRES(kCacheLock);
  void adopt(const Build& build, ByteSpan stored) REQUIRES(kCacheLock);

  CacheMutex& mutex_;
  SegmentTable& table_;
  RamTier& ram_;
  RamRoom& room_;
  Forgetting& forgetting_;
  const bool has_disk_;
  std::uint64_t built_ GUARDED_BY(kCacheLock) = 0;
  ByteCount saved_ GUARDED_BY(kCacheLock);
};

}  // namespace kvkeep::cache
