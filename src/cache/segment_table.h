#pragma once

// The table of all that the cache knows of each segment and leaf: its place among the others, the tiers that have a
// copy, the reason for its absence from the disk, its holds and its uses. No other class changes any of this, so sums
// and watchers always agree with it. Memory only; everything here needs the cache's lock.
//
// A segment's children in the index, and the states that are built on it, hang below it: it may not leave before them.
// Precondition of all methods that take a segment: the index contains it, and it is not the root.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "base/mutex.h"
#include "base/types.h"
#include "cache/cache_options.h"
#include "cache/stored_sums.h"
#include "cache/tier.h"
#include "explain/loss.h"
#include "index/prefix_index.h"
#include "policy/evict_candidate.h"

namespace kvkeep::cache {

// The one lock of a cache, as a capability that is passed around.
//
// A cache is made of several classes, and their members change together: so there is one mutex for all of them. The
// cache makes it and gives it to each class that takes the lock itself. clang's analysis cannot know that two
// references name the same mutex. So the annotations name a role, `kCacheLock`, which a CacheLock, the only way to take
// a CacheMutex, takes on: GUARDED_BY(kCacheLock) and REQUIRES(kCacheLock) are checked across all classes.
//
// Order: a store's own locks come after this one if they are held for a moment (used(), stopped()), and before it if a
// call may wait for a disk (put(), get(), remove(), writes()): no call that may wait is made with this lock.
class CAPABILITY("the cache's lock") CacheLockRole {};
inline constexpr CacheLockRole kCacheLock;

class CacheMutex {
 public:
  Mutex& mutex() { return mutex_; }

 private:
  Mutex mutex_;
};

class SCOPED_CAPABILITY CacheLock {
 public:
  explicit CacheLock(CacheMutex& mutex) ACQUIRE(kCacheLock) NO_THREAD_SAFETY_ANALYSIS : mutex_(mutex.mutex()) {
    mutex_.lock();
  }
  ~CacheLock() RELEASE() NO_THREAD_SAFETY_ANALYSIS { mutex_.unlock(); }
  CacheLock(const CacheLock&) = delete;
  CacheLock& operator=(const CacheLock&) = delete;

 private:
  Mutex& mutex_;
};

enum class CopyState : std::uint8_t {
  kAbsent,
  kQueued,  // about to be put
  kComing,  // being put
  kHere,
  kLeaving,  // being dropped
};

// Why a segment is absent from the disk, and what allows it to be written.
enum class Waits : std::uint8_t {
  kNothing,       // it is not wanted there: there is no disk, or it left the disk
  kContinuation,  // too short for a file of its own, or its write failed: it is written with what continues it
  kQueue,         // the writer lags, or the disk is full: until the queue is shorter
  kAllowance,     // too much was written today: until more may be written, or a request uses it
  kRoom,          // another server is the keeper and granted no more: until its next grant
};

struct Entry {
  std::array<CopyState, kMostTiers> copies{};  // by TierId
  Waits waits = Waits::kNothing;
  Keeping keeping = Keeping::kOnDisk;
  policy::Outlook outlook = policy::Outlook::kOpen;
  std::uint8_t refusals = 0;                    // reads that a device refused
  bool live = false;                            // the slot is in use
  bool forgotten = false;                       // damaged, or below a damaged one: never offered again
  std::optional<explain::LossCause> loss = {};  // of a forgotten one: why; empty: it does not matter
  bool hole = false;  // other hands removed its file, but not what continues it, and RAM has it
  std::uint32_t hits = 0;
  std::uint32_t pins = 0;
  ByteCount charged;      // RAM's count for its payload
  format::Part part;      // its kind and size; the sum is the store's
  Position stored_begin;  // its bytes begin here; the index may show a later begin where others overlap
  PrefixHash stored_begin_hash;
  std::int64_t last_used_ns = 0;
  std::int64_t kept_until_ns = 0;    // 0: no request asked
  std::uint64_t serial = 0;          // distinguishes it from earlier segments with its id
  StoredSums::Number tenant = 0;     // of a live one
  std::uint64_t leaves_written = 0;  // see SegmentTable::note_leaves_written()
  SegmentId base;                    // the state that this whole state is built on; the root: none

  CopyState in(TierId tier) const { return copies[tier.value()]; }
  bool in_ram() const { return in(kRamTier) == CopyState::kHere; }
  bool on_disk() const { return in(kDiskTier) == CopyState::kHere; }
  bool queued() const { return in(kDiskTier) == CopyState::kQueued; }
  bool below_ram() const;  // a tier below RAM has it
  // Absent from the disk and wanted there.
  bool unwritten() const { return in(kDiskTier) == CopyState::kAbsent && waits != Waits::kNothing; }
  bool is_leaf() const { return part.kind != format::PartKind::kRows; }
  bool available() const;  // some tier has it, and it is not forgotten
  bool in_use() const;     // a request holds it, or a tier is about to take or drop it
  bool needs_its_path() const { return in_use() || queued(); }
};

// A new segment whose bytes the caller has.
struct Fresh {
  std::size_t size_bytes = 0;
  std::int64_t now_ns = 0;
  Keeping keeping = Keeping::kOnDisk;
};

// Called for every change of an entry, with the cache's lock.
class TableWatcher {
 public:
  virtual ~TableWatcher() = default;
  virtual void changed(SegmentId segment) REQUIRES(kCacheLock) = 0;
};

class SegmentTable {
 public:
  // Ids of named segments are below `vocabulary_size`, or a chunk's.
  SegmentTable(const FingerprintHash& fingerprint, const StateShape& shape, std::size_t vocabulary_size = SIZE_MAX);
  SegmentTable(const SegmentTable&) = delete;
  SegmentTable& operator=(const SegmentTable&) = delete;

  // Watchers must outlive the table's use.
  void watch(TableWatcher& watcher) REQUIRES(kCacheLock) { watchers_.push_back(&watcher); }

  // ---- what there is ----
  const index::PrefixIndex& index() const REQUIRES(kCacheLock) { return index_; }
  const index::SegmentInfo& info(SegmentId segment) const REQUIRES(kCacheLock) { return index_.info(segment); }
  // For a number that no segment has any more, the entry is not live.
  const Entry& entry(SegmentId segment) const REQUIRES(kCacheLock);
  // All numbers are below it.
  SegmentId end() const REQUIRES(kCacheLock) { return SegmentId{static_cast<std::uint32_t>(entries_.size())}; }
  const StateShape& shape() const { return shape_; }
  std::optional<SegmentId> named(const format::SegmentName& name) const REQUIRES(kCacheLock);
  format::SegmentName name_of(SegmentId segment) const REQUIRES(kCacheLock);
  TierItem item(SegmentId segment) const REQUIRES(kCacheLock);
  // With only its name: to be dropped.
  TierItem named_item(SegmentId segment) const REQUIRES(kCacheLock);
  // The size of the whole file.
  ByteCount file_size(SegmentId segment) const REQUIRES(kCacheLock);
  // Bytes that it takes in a tier, or would take.
  ByteCount size_in(TierId tier, SegmentId segment) const REQUIRES(kCacheLock);
  const StoredSums& sums() const REQUIRES(kCacheLock) { return sums_; }
  // Counts changes of copies, uses and holds.
  std::uint64_t changes() const REQUIRES(kCacheLock) { return changes_; }
  std::size_t holes() const REQUIRES(kCacheLock) { return holes_; }
  ByteCount memory() const REQUIRES(kCacheLock);

  // ---- parents, children and bases ----
  std::vector<SegmentId> built_on(SegmentId base) const REQUIRES(kCacheLock);
  bool nothing_below(SegmentId segment) const REQUIRES(kCacheLock);
  // Its children, and the states that are built on it.
  std::vector<SegmentId> below(SegmentId segment) const REQUIRES(kCacheLock);
  // The given root, everything below it, and everything built on any of that: each after its parent or base. A state
  // that is built on others comes after each of them.
  std::vector<SegmentId> subtree(SegmentId root) const REQUIRES(kCacheLock);
  bool any_in_subtree(SegmentId root, bool (*holds)(const Entry&)) const REQUIRES(kCacheLock);

  // ---- coming and going ----
  // Preconditions: those of PrefixIndex::insert and insert_leaf.
  SegmentId insert(index::Cursor at, TokenSpan tokens, const PrefixHash& begin_hash, const PrefixHash& end_hash,
                   format::Origin origin, const Fresh& fresh) REQUIRES(kCacheLock);
  SegmentId insert_leaf(index::Cursor at, format::PartKind kind, Position begin, const PrefixHash& begin_hash,
                        const PrefixHash& end_hash, const Fresh& fresh) REQUIRES(kCacheLock);
  // The placed segments are not live yet. Those with ids that no prompt of this model has count as of a wrong hash.
  std::vector<index::Placement> rebuild(std::vector<index::NamedSegment> named) REQUIRES(kCacheLock);
  // A segment that rebuild() placed is live from now on, as it is stored.
  void begin_life(SegmentId placed, const format::SegmentHeader& stored, SegmentId base) REQUIRES(kCacheLock);
  // Precondition: nothing hangs below it, and RAM does not have it.
  void erase(SegmentId segment) REQUIRES(kCacheLock);
  void mark_sampled(index::Cursor to, TokenRange run) REQUIRES(kCacheLock) { index_.mark_sampled(to, run); }
  void set_forgotten(SegmentId segment, std::optional<explain::LossCause> loss) REQUIRES(kCacheLock);

  // ---- holds and uses ----
  void pin(SegmentId segment) REQUIRES(kCacheLock);  // the root: nothing
  void unpin(SegmentId segment) REQUIRES(kCacheLock);
  void use(SegmentId segment, std::int64_t now_ns) REQUIRES(kCacheLock);
  // Takes the time of a file as its last use, or as the time until which it is kept.
  void note_file_time(SegmentId segment, std::int64_t modified_ns, std::int64_t now_ns) REQUIRES(kCacheLock);
  void keep_until(SegmentId segment, std::int64_t until_ns) REQUIRES(kCacheLock);
  void set_outlook(SegmentId leaf, policy::Outlook outlook, std::optional<std::int64_t> used_ns) REQUIRES(kCacheLock);
  std::uint8_t note_read_refused(SegmentId segment) REQUIRES(kCacheLock);

  // ---- copies ----
  void set_copy(SegmentId segment, TierId tier, CopyState state) REQUIRES(kCacheLock);
  // Puts it in RAM, which counts `charged` bytes for it.
  void set_in_ram(SegmentId segment, ByteCount charged) REQUIRES(kCacheLock);
  // Absent from the disk.
  void set_unwritten(SegmentId segment, Waits waits) REQUIRES(kCacheLock);
  // A child of it is on disk. Ends by itself when the segment is there too.
  void set_hole(SegmentId segment, bool hole = true) REQUIRES(kCacheLock);
  void set_keeping(SegmentId leaf, Keeping keeping) REQUIRES(kCacheLock);
  // The leaf's bytes are differences from the state at `base` from now on.
  void set_built(SegmentId leaf, SegmentId base, const format::Part& part) REQUIRES(kCacheLock);
  // No leaf on the path to `segment` is unwritten: holds until another leaf waits.
  void note_leaves_written(SegmentId segment) REQUIRES(kCacheLock);
  bool leaves_are_written(SegmentId segment) const REQUIRES(kCacheLock);

 private:
  Entry& change(SegmentId segment) REQUIRES(kCacheLock);
  Entry& begin(SegmentId segment, StoredSums::Number tenant) REQUIRES(kCacheLock);
  SegmentId begin_fresh(SegmentId segment, const Fresh& fresh) REQUIRES(kCacheLock);
  void note_changed(SegmentId segment) REQUIRES(kCacheLock);
  void set_base(SegmentId leaf, SegmentId base) REQUIRES(kCacheLock);

  const FingerprintHash fingerprint_;
  const std::size_t vocabulary_size_;
  const StateShape shape_;
  index::PrefixIndex index_ GUARDED_BY(kCacheLock);
  std::vector<Entry> entries_ GUARDED_BY(kCacheLock);
  std::unordered_map<SegmentId, std::vector<SegmentId>> built_on_ GUARDED_BY(kCacheLock);  // by base
  std::vector<TableWatcher*> watchers_ GUARDED_BY(kCacheLock);
  StoredSums sums_ GUARDED_BY(kCacheLock);
  std::uint64_t changes_ GUARDED_BY(kCacheLock) = 0;
  std::uint64_t lives_ GUARDED_BY(kCacheLock) = 0;
  std::uint64_t leaves_unwritten_ GUARDED_BY(kCacheLock) = 1;  // times that a leaf was left for its continuation
  std::size_t holes_ GUARDED_BY(kCacheLock) = 0;
};

}  // namespace kvkeep::cache
