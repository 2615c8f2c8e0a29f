#pragma once

// The table of all that the cache knows of each segment and leaf: its place among the others, which tiers have a copy,
// what its absence from the disk waits for, who holds it, when it was used. The one class that changes any of this, so
// that sums and watchers agree with it at any moment. Memory only; everything here needs the cache's lock.
//
// Below a segment hang its children in the index and the states that are built on it: it may not go before them.
// Precondition of all that take a segment: the index contains it, and it is not the root.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "base/types.h"
#include "cache/cache_lock.h"
#include "cache/cache_options.h"
#include "cache/tier.h"
#include "index/prefix_index.h"
#include "policy/evict.h"

namespace kvkeep::cache {

enum class CopyState : std::uint8_t {
  kAbsent,
  kQueued,  // about to be put
  kComing,  // being put
  kHere,
  kLeaving,  // being dropped
};

// Why a segment is absent from the disk, and what lets it be written after all.
enum class Waits : std::uint8_t {
  kNothing,       // nobody wants it there: there is no disk, or it left it
  kContinuation,  // too short for a file of its own, or its write failed: what continues it takes it along
  kQueue,         // the writer lags, or the disk is full: a shorter queue
  kAllowance,     // too much was written today: what may be written again, or somebody who comes back to it
  kRoom,          // another server keeps the budget and granted no more: its next grant
};

struct Entry {
  std::array<CopyState, kMostTiers> copies{};  // by TierId
  Waits waits = Waits::kNothing;
  Keeping keeping = Keeping::kOnDisk;
  policy::Outlook outlook = policy::Outlook::kOpen;
  std::uint8_t refusals = 0;  // reads that a device refused
  bool live = false;          // the slot is in use
  bool dead = false;          // damaged, or below what is: never offered again
  bool hole = false;          // not on disk, though what continues it is: other hands removed it, and RAM has it
  std::uint32_t hits = 0;
  std::uint32_t pins = 0;
  ByteCount charged;      // what RAM counts for its payload
  format::Part part;      // its kind and size; the sum is the store's
  Position stored_begin;  // its bytes begin here; the index may show a later begin where others overlap
  PrefixHash stored_begin_hash;
  std::int64_t last_used_ns = 0;
  std::int64_t kept_until_ns = 0;    // 0: nobody asked
  std::uint64_t serial = 0;          // tells it from others that had its number before
  std::uint64_t leaves_written = 0;  // see SegmentTable::note_leaves_written()
  SegmentId base;                    // of a whole state: what it is built on; the root: none

  CopyState in(TierId tier) const { return copies[tier.value()]; }
  bool in_ram() const { return in(kRamTier) == CopyState::kHere; }
  bool on_disk() const { return in(kDiskTier) == CopyState::kHere; }
  bool queued() const { return in(kDiskTier) == CopyState::kQueued; }
  bool below_ram() const;  // a tier below RAM has it
  // Absent from the disk and wanted there.
  bool unwritten() const { return in(kDiskTier) == CopyState::kAbsent && waits != Waits::kNothing; }
  bool is_leaf() const { return part.kind != format::PartKind::kRows; }
  bool available() const;  // some tier has it, and it is not dead
  bool in_use() const;     // by a request, or by who moves it to or from RAM or disk at this moment
  bool needs_its_path() const { return in_use() || queued(); }
};

// How a segment begins whose bytes are in hand.
struct Fresh {
  std::size_t size_bytes = 0;
  std::int64_t now_ns = 0;
  Keeping keeping = Keeping::kOnDisk;
};

// Told of every change of an entry. With the cache's lock.
class TableWatcher {
 public:
  virtual ~TableWatcher() = default;
  virtual void changed(SegmentId segment) REQUIRES(kCacheLock) = 0;
};

class SegmentTable {
 public:
  SegmentTable(const FingerprintHash& fingerprint, const StateShape& shape);
  SegmentTable(const SegmentTable&) = delete;
  SegmentTable& operator=(const SegmentTable&) = delete;

  // Watchers must outlive the table's use.
  void watch(TableWatcher& watcher) REQUIRES(kCacheLock) { watchers_.push_back(&watcher); }

  // ---- what there is ----
  const index::PrefixIndex& index() const REQUIRES(kCacheLock) { return index_; }
  const index::SegmentInfo& info(SegmentId segment) const REQUIRES(kCacheLock) { return index_.info(segment); }
  // Also of a number that nothing has any more: not live.
  const Entry& entry(SegmentId segment) const REQUIRES(kCacheLock);
  // All numbers are below it.
  SegmentId end() const REQUIRES(kCacheLock) { return SegmentId{static_cast<std::uint32_t>(entries_.size())}; }
  const StateShape& shape() const { return shape_; }
  std::optional<SegmentId> named(const format::SegmentName& name) const REQUIRES(kCacheLock);
  format::SegmentName name_of(SegmentId segment) const REQUIRES(kCacheLock);
  TierItem item(SegmentId segment) const REQUIRES(kCacheLock);
  // With its name alone: to be dropped.
  TierItem named_item(SegmentId segment) const REQUIRES(kCacheLock);
  // Of the whole file.
  ByteCount file_size(SegmentId segment) const REQUIRES(kCacheLock);
  // Bytes that it takes in a tier, or would take.
  ByteCount size_in(TierId tier, SegmentId segment) const REQUIRES(kCacheLock);
  // Bytes of all points, whole states and windows in a tier.
  ByteCount points_in(TierId tier) const REQUIRES(kCacheLock) { return points_[tier.value()]; }
  // Changes of what is where, of use, and of what is held.
  std::uint64_t changes() const REQUIRES(kCacheLock) { return changes_; }
  std::size_t holes() const REQUIRES(kCacheLock) { return holes_; }
  ByteCount memory() const REQUIRES(kCacheLock);

  // ---- what hangs below what ----
  std::vector<SegmentId> built_on(SegmentId base) const REQUIRES(kCacheLock);
  bool nothing_below(SegmentId segment) const REQUIRES(kCacheLock);
  // Children and what is built on it.
  std::vector<SegmentId> below(SegmentId segment) const REQUIRES(kCacheLock);
  // The root given, all below it, and what is built on any of that: each after what it hangs below or is built on. A
  // state that is built on others is named after each of them.
  std::vector<SegmentId> subtree(SegmentId root) const REQUIRES(kCacheLock);
  bool any_in_subtree(SegmentId root, bool (*holds)(const Entry&)) const REQUIRES(kCacheLock);

  // ---- coming and going ----
  // Precondition: as PrefixIndex::insert and attach.
  SegmentId insert(index::Cursor at, TokenSpan tokens, const PrefixHash& begin_hash, const PrefixHash& end_hash,
                   format::Origin origin, const Fresh& fresh) REQUIRES(kCacheLock);
  SegmentId attach(index::Cursor at, format::PartKind kind, Position begin, const PrefixHash& begin_hash,
                   const PrefixHash& end_hash, const Fresh& fresh) REQUIRES(kCacheLock);
  // The segments that were placed have no life yet.
  std::vector<index::Placement> rebuild(const std::vector<index::NamedSegment>& named) REQUIRES(kCacheLock);
  // A segment that rebuild() placed lives from now on, as it is stored.
  void begin_life(SegmentId placed, const format::SegmentHeader& stored, SegmentId base) REQUIRES(kCacheLock);
  // Precondition: nothing hangs below it, and RAM does not have it.
  void erase(SegmentId segment) REQUIRES(kCacheLock);
  void mark_sampled(index::Cursor to, TokenRange run) REQUIRES(kCacheLock) { index_.mark_sampled(to, run); }
  void kill(SegmentId segment) REQUIRES(kCacheLock);

  // ---- who holds and uses it ----
  void pin(SegmentId segment) REQUIRES(kCacheLock);  // the root: nothing
  void unpin(SegmentId segment) REQUIRES(kCacheLock);
  void use(SegmentId segment, std::int64_t now_ns) REQUIRES(kCacheLock);
  // A file's time says when it was used, or until when it is kept.
  void note_file_time(SegmentId segment, std::int64_t modified_ns, std::int64_t now_ns) REQUIRES(kCacheLock);
  void keep_until(SegmentId segment, std::int64_t until_ns) REQUIRES(kCacheLock);
  void set_outlook(SegmentId leaf, policy::Outlook outlook, std::optional<std::int64_t> used_ns) REQUIRES(kCacheLock);
  std::uint8_t note_read_refused(SegmentId segment) REQUIRES(kCacheLock);

  // ---- where it is ----
  void set_copy(SegmentId segment, TierId tier, CopyState state) REQUIRES(kCacheLock);
  // In RAM, where so much is counted for it.
  void set_in_ram(SegmentId segment, ByteCount charged) REQUIRES(kCacheLock);
  // Absent from the disk.
  void set_unwritten(SegmentId segment, Waits waits) REQUIRES(kCacheLock);
  // A child of it is on disk. Over by itself when it is there too.
  void set_hole(SegmentId segment, bool hole = true) REQUIRES(kCacheLock);
  void set_keeping(SegmentId leaf, Keeping keeping) REQUIRES(kCacheLock);
  // The leaf's bytes are differences from the state at `base` from now on.
  void set_built(SegmentId leaf, SegmentId base, const format::Part& part) REQUIRES(kCacheLock);
  // No leaf on the path to `segment` is unwritten: holds until another one is.
  void note_leaves_written(SegmentId segment) REQUIRES(kCacheLock);
  bool leaves_are_written(SegmentId segment) const REQUIRES(kCacheLock);

 private:
  Entry& change(SegmentId segment) REQUIRES(kCacheLock);
  Entry& begin(SegmentId segment) REQUIRES(kCacheLock);
  SegmentId begin_fresh(SegmentId segment, const Fresh& fresh) REQUIRES(kCacheLock);
  void note_changed(SegmentId segment) REQUIRES(kCacheLock);
  void set_base(SegmentId leaf, SegmentId base) REQUIRES(kCacheLock);

  const FingerprintHash fingerprint_;
  const StateShape shape_;
  index::PrefixIndex index_ GUARDED_BY(kCacheLock);
  std::vector<Entry> entries_ GUARDED_BY(kCacheLock);
  std::unordered_map<SegmentId, std::vector<SegmentId>> built_on_ GUARDED_BY(kCacheLock);  // by base
  std::vector<TableWatcher*> watchers_ GUARDED_BY(kCacheLock);
  std::array<ByteCount, kMostTiers> points_ GUARDED_BY(kCacheLock);
  std::uint64_t changes_ GUARDED_BY(kCacheLock) = 0;
  std::uint64_t lives_ GUARDED_BY(kCacheLock) = 0;
  std::uint64_t leaves_unwritten_ GUARDED_BY(kCacheLock) = 1;  // times that a leaf was left for what continues it
  std::size_t holes_ GUARDED_BY(kCacheLock) = 0;
};

}  // namespace kvkeep::cache
