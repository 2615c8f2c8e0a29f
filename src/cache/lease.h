#pragma once

// The holds that requests have on the cache: a Lease on a path that can be restored, a Track of the end of a live
// sequence.

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/hash.h"
#include "base/types.h"
#include "cache/model_memory.h"
#include "index/prefix_index.h"
#include "policy/plan.h"
#include "store/ram_store.h"

namespace kvkeep::cache {

// kShared: it must be read from a tier below the disk.
using Tier = policy::CacheTier;

// The ids of a prompt whose rows a payload holds, at least to the payload's end. Null if there is no picture or sound
// among them. Steps whose payloads end where the prompt leaves them, or before, share those of the prompt.
using LeasedIds = std::shared_ptr<const std::vector<TokenId>>;

// One segment of a leased path.
struct LeasedStep {
  SegmentId segment;
  TokenRange range;        // tokens of the prompt this step covers
  TokenRange stored;       // positions whose rows its payload holds
  Tier tier = Tier::kRam;  // where the rows were when leased
  ByteCount bytes;
  std::shared_ptr<const store::Payload> payload;  // null until loaded, unless tier is kRam
  LeasedIds ids = {};
};

// A leaf of state that rows cannot give, on a leased path: a point, a whole state (range.begin == range.end), or window
// rows within one segment.
struct LeasedPoint {
  SegmentId id;
  format::PartKind kind = format::PartKind::kPoint;
  TokenRange range;   // the part of it that the prompt shares
  TokenRange stored;  // positions whose window rows its payload holds: they may go on beyond `range`
  Tier tier = Tier::kRam;
  ByteCount bytes;
  std::shared_ptr<const store::Payload> payload;  // null until loaded, unless tier is kRam and it is whole
  LeasedIds ids = {};
};

// Takes back the segments that leases and tracks held. Thread safe.
class Releaser {
 public:
  virtual ~Releaser() = default;
  // Each was held once more than it is now; roots are skipped.
  virtual void release(std::span<const SegmentId> held) = 0;
};

// A path that can be restored, held against eviction. Made by Cache::lease, filled by Cache::load. Not thread safe:
// while a load runs only the cache touches it, but for abandon(); before and after, only its owner.
class Lease {
 public:
  // `pinned` and the points are held, and released at the end.
  Lease(Releaser& releaser, const StateShape& shape, SegmentId pinned, std::vector<LeasedStep> steps,
        std::vector<LeasedPoint> points = {});
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  const std::vector<LeasedStep>& steps() const { return steps_; }
  // Ascending by range.end, each held against eviction, only of the kind that the model restores.
  const std::vector<LeasedPoint>& points() const { return points_; }
  // Where a sequence can be restored with this lease, ascending: everything up to end() if the model needs only rows,
  // else where points are, or where the window rows of the last window are. `bytes` counts the leaves, and
  // `tier` is the slowest that must be read. Cost: O(leaves).
  std::vector<policy::Restorable> restorable() const;
  // The end of the rows.
  Position end() const { return steps_.empty() ? Position{} : steps_.back().range.end; }
  // Returns true if every step that covers [from, to) has its payload.
  bool loaded(TokenRange range) const;
  // The last position up to which everything from `from` on has its payload.
  Position loaded_until(Position from) const;
  // The end of the next portion to load from `from` on: a step and more, up to `most` bytes to load and up to `limit`.
  // Portions of the shared tier are small: the next one comes while one is restored.
  Position load_end(Position from, Position limit, ByteCount most) const;
  // Drops the payloads of steps that end at or before `end`: they have been restored.
  void release_until(Position end);
  // Rows for `range`, valid while the lease lives. Precondition: loaded(range).
  std::vector<RowPiece> pieces(TokenRange range) const;
  // Returns true if the state that must be restored last at `at` is loaded: the point there, or the last window;
  // nothing if the model needs only rows. Returns false also if `at` is not restorable.
  bool point_loaded(Position at) const;
  // Precondition: point_loaded(at).
  std::vector<RowPiece> point_pieces(Position at) const;

  // A leaf by its place in points(), and the part of it to restore.
  struct Cover {
    std::size_t point = 0;
    TokenRange wanted;
  };
  // The leaves that must be restored last at `at`, ascending; nullopt if a sequence cannot be put there.
  std::optional<std::vector<Cover>> cover(Position at) const;

  // Rows up to `goal` will be loaded by one call of Cache::load after the other: tiers may read ahead.
  void aim_at(Position goal) { goal_ = goal; }
  Position goal() const { return goal_; }
  // A load that is under way ends before its next segment, and fails. Its owner may call this at any time.
  void abandon() { abandoned_ = true; }

  // For the cache, while it loads.
  bool abandoned() const { return abandoned_; }
  void fill_step(std::size_t step, std::shared_ptr<const store::Payload> payload);
  void fill_point(std::size_t point, std::shared_ptr<const store::Payload> payload);

 private:
  std::optional<std::vector<Cover>> cover_window(TokenRange window) const;
  std::vector<Position> places_of_change() const;

  Releaser& releaser_;
  const StateShape shape_;
  const SegmentId pinned_;
  std::vector<LeasedStep> steps_;
  std::vector<LeasedPoint> points_;
  Position goal_;
  std::atomic<bool> abandoned_ = false;
};

// Where a live sequence ends in the index: everything before position() is stored (or in the write queue). Move-only;
// holds its place against eviction. Belongs to one thread.
class Track {
 public:
  // At the root, which needs no hold.
  Track(Releaser& releaser, index::Cursor root, const PrefixHasher& hasher);
  Track(Track&& other) noexcept;
  Track& operator=(Track&& other) noexcept;
  ~Track();

  Position position() const { return cursor_.at; }
  const index::Cursor& cursor() const { return cursor_; }
  const PrefixHasher& hasher() const { return hasher_; }

  // For the cache, which holds the new place already. Returns the segment of the former place, which is still held.
  SegmentId move_to(index::Cursor cursor, const PrefixHasher& hasher);

 private:
  void release();

  Releaser* releaser_;
  index::Cursor cursor_;
  PrefixHasher hasher_;
};

}  // namespace kvkeep::cache
