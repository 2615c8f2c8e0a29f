#pragma once

// The cache: what is known of every prefix, and where its rows can be had.
//
// The one room with state transitions between tiers. It knows which prefixes there are (segment_table.h) and which
// tiers have a copy of each: RAM, disk, and further ones (tier.h). It asks policy what may leave, and does it. The
// model's own memory is not here: see model_memory.h.
//
// A segment's life: captured rows enter RAM at once and the write queue; the writer puts them on disk once; under
// pressure the RAM copy leaves (rows come back from disk) or, without disk, the segment leaves the index, leaves first.
// Damage found on the way makes the segment *dead*: never offered again, and its subtree is dropped as soon as nobody
// holds it.
//
// What rows cannot give (points, whole states, window rows: see model_memory.h) are leaves that hang in segments and
// live in the same way, each in a file of its own. They may leave anywhere on a path and their damage costs nothing but
// themselves. Invariants, of segments and leaves alike:
//   - whoever holds a Lease or Track pins its deepest segment, a Lease its leaves as well: they and their ancestors
//     leave neither the index nor, as far as they are there, the disk;
//   - nothing is put on disk before what it hangs below is (a recovered conversation has no hole);
//   - nothing leaves the disk before what hangs below it did.
// When the writer lags, the newest wait outside its queue, in RAM alone, and may be forgotten there; so does what a
// full disk refused: see backlog.h. Whole states are stored as differences from an earlier whole state on their path:
// see state_chains.h. Rows of no bytes (models that have only points) are token ids alone: held in RAM until they are
// on disk, never read.
//
// Tenants (base/tenant.h) share nothing but the budgets: what one of them asks for is looked up in its own alone.
// Thread safe. Nothing here waits for disk except flush() and the tasks on the executors.
//
// This class is the front: its parts (cache.cc) own what there is to know, share one lock (cache_lock.h) and call each
// other one way. README.md has them in order.

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/tenant.h"
#include "base/types.h"
#include "cache/cache_options.h"
#include "cache/lease.h"
#include "cache/tier.h"
#include "index/text_match.h"
#include "os/clock.h"
#include "os/executor.h"
#include "store/disk_store.h"
#include "store/ram_store.h"

namespace kvkeep::cache {

class Cache {
 public:
  // `disk` may be null: no disk tier. The executors must outlive the cache; `writer` runs puts and removes, `reader`
  // runs gets. What `disk` recovered is indexed here. `further`: tiers below the disk, the fastest first.
  Cache(CacheOptions options, std::unique_ptr<store::DiskStore> disk, os::Clock& clock, os::Executor& writer,
        os::Executor& reader, std::vector<FurtherTier> further = {});
  ~Cache();
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;
  // Lets go, on the writer, of segments that are over their time or the budget: call it once, after keep() of those
  // that must stay.
  void settle();

  // The longest of what is known whose text the prompt begins with, of segments whose rows can be had: see
  // index/text_match.h. Nothing is held; lease() the effective prompt that comes of it.
  index::TextMatch match_text(TokenSpan prompt, const index::TokenTexts& texts, const Tenant& tenant = kNoTenant) const;
  // The longest path of `prompt` whose rows can be had, pinned, and the leaves on it. Never null; may have no steps.
  std::shared_ptr<Lease> lease(TokenSpan prompt, const Tenant& tenant = kNoTenant);
  // Counts the leased path as used now (recency and hits decide what is kept), and of its leaves those that put a
  // sequence at `restored`; without it, at the last restorable position.
  void note_use(const Lease& lease, std::optional<Position> restored = std::nullopt);

  // Reads what [range) of the lease lacks, then calls `done` from the reader executor (or at once, from this thread, if
  // nothing is lacking). On an error the damaged or missing segment is dropped; what lies before it is the next best.
  // Everything in the range is in memory at once, beyond the RAM budget if need be: ask for windows of a long path.
  // `point`: what must be restored last there is loaded too, and before the rows, which are worth nothing without it.
  // kNotFound: the lease cannot put a sequence there.
  void load(std::shared_ptr<Lease> lease, TokenRange range, std::function<void(LoadResult)> done,
            std::optional<Position> point = std::nullopt);

  // Tells the cache that a step or point of a lease was refused by the model's memory as malformed.
  void report_damaged(SegmentId segment);

  // Known whatever of it can still be had; at most `count` tokens follow. Counts as no use. Cost: O(prompt), and what
  // continues the path where it ends.
  Parting parting(TokenSpan prompt, std::size_t count, const Tenant& tenant = kNoTenant) const;

  // A place at the end of what is known of `tokens`.
  Track track(TokenSpan tokens, const Tenant& tenant = kNoTenant);
  // Moves over what is known of `next`, the tokens after track.position(). False: what comes after the new position is
  // dead and held by somebody, so that store() would refuse it.
  bool follow(Track& track, TokenSpan next);
  // Makes buffers for staging(), on the writer, as many as staging_limit allows; none if nothing is accepted.
  void prepare_staging(std::size_t count, std::size_t size_bytes);
  // A buffer for rows, already touched by the processor if one is free.
  store::StagingBuffer staging(std::size_t size_bytes);
  // Adds a segment of `tokens` at the track, whose rows are the first `size_bytes` of `rows`, and moves the track to
  // its end. Precondition: follow() was called, so the index does not know tokens[0] there; at most
  // format::kMaxSegmentTokens. False: refused (no room, or the place is dead); the track stays.
  bool store(Track& track, TokenSpan tokens, store::StagingBuffer rows, std::size_t size_bytes,
             format::Origin origin = format::Origin::kPrompt);
  // Of what the track moved over from `from` on, these ids (ascending, apart; may go on beyond it) were sampled, though
  // they were known as a prompt's: text matching may put them in the place of others. Not stored.
  void note_sampled(const Track& track, Position from, std::span<const TokenRange> sampled);
  // Adds a point or whole state at the track, the first `size_bytes` of `bytes`; the track stays. False: refused, or
  // there is one already. Precondition: the track is not at 0.
  bool store_point(const Track& track, format::PartKind kind, store::StagingBuffer bytes, std::size_t size_bytes,
                   Keeping keeping = Keeping::kOnDisk);
  // With kOnDisk, one that is there and was kept in RAM is written like others from now on.
  bool has_point(const Track& track, format::PartKind kind, Keeping keeping = Keeping::kOnDisk);
  // Forgets the points, whole states and windows at these positions of a path, at once or when nobody holds them any
  // more. Those stay that others, which are not among them, need: states that are built on them, windows that go on
  // where they end.
  void forget_points(TokenSpan path, const std::vector<Position>& positions, const Tenant& tenant = kNoTenant);
  // Eviction holds on to the point or window at `at` on the track's path, and less to those between it and the track.
  // None: the path's are like others.
  void await_point(const Track& track, std::optional<Position> at);
  // The path that the track moved over, and where it can be gone on with, stays for `keep_ns` from now: until then
  // eviction takes it last, as far as it is not more than half of a tier. A later call may prolong it. Survives a
  // restart. At most policy::kLongestKeepNs. Cost: O(segments and leaves of the path).
  void keep(const Track& track, std::int64_t keep_ns);
  // Runs of [from, track.position()) without window rows, each within one segment.
  std::vector<TokenRange> missing_windows(const Track& track, Position from) const;
  // Adds window rows of a run that missing_windows() named, or of a part of one. False: refused.
  bool store_window(const Track& track, TokenRange range, store::StagingBuffer bytes, std::size_t size_bytes);
  // True if store() may accept anything at all.
  bool accepts() const;
  // True if there is room for `size_bytes` more, after making some: ask before rows are copied for nothing.
  bool make_room(std::size_t size_bytes);
  // The same for a point, or all window rows of one.
  bool make_room_for_point(std::size_t size_bytes);
  ByteCount point_bytes() const;

  // For the audit. A path that a restore would read, by `random` among all there are: of those whose last
  // segment or leaf lies on disk alone, or else of those in RAM. nullopt: nothing is stored. Cost: O(what is stored).
  std::optional<StoredPath> random_path(std::uint64_t random) const;
  // Stored state was found to be wrong: from now on nothing of it is found, and nothing is stored any more, in this
  // process; the note that is left on disk says so to others (store/notes.h).
  void distrust(const std::string& why);
  bool distrusted() const;

  // Does this server's part where several use the directory, on the writer: call it about once a second. What others
  // stored is known afterwards.
  void tick();
  // Waits until everything accepted so far is durable or given up, then saves the index. Not from an executor's task.
  void flush();
  CacheStats stats() const;

 private:
  struct Parts;
  const std::unique_ptr<Parts> parts_;
};

}  // namespace kvkeep::cache
