#pragma once

// The cache: which prefixes are known, and where their rows lie.
//
// The one room with state transitions between tiers. The cache knows all prefixes (segment_table.h) and which tiers
// have a copy of each: RAM, disk, and further ones (tier.h). It asks policy what may leave, and carries that out. The
// model's own memory is not here: see model_memory.h.
//
// A segment's life: captured rows enter RAM and the write queue at once; the writer puts them on disk once; under
// pressure the RAM copy is evicted (rows come back from disk) or, without a disk, the segment is forgotten, ends of
// paths first. A segment found damaged becomes *forgotten*: it is never offered again, and its subtree is dropped as
// soon as no lease or track holds any of it.
//
// State that rows cannot give (points, whole states, window rows: see model_memory.h) hangs in segments as leaves,
// which live in the same way, each in a file of its own. Leaves may be evicted anywhere on a path, and a damaged one
// costs only itself. Invariants, of segments and leaves alike:
//   - a Lease or Track pins its deepest segment, a Lease its leaves as well: these and their ancestors stay in the
//     index, and on disk if they are there;
//   - a segment is put on disk after its parent (a recovered conversation has no hole);
//   - a segment leaves the disk after everything below it.
// When the writer lags, the newest segments wait outside its queue, only in RAM, where they may be forgotten; so do
// segments that a full disk refused: see backlog.h. Whole states are stored as differences from an earlier whole state
// on their path: see state_chains.h. Rows of no bytes (models that have only points) consist of token ids: they stay in
// RAM until they are on disk, and are never read.
//
// Tenants (base/hash.h) share only the budgets: a lookup for one of them sees only its own segments. Thread safe.
// Only flush() and the tasks on the executors wait for disk.
//
// This class is the front: its parts (cache_parts.h) own the state, share one lock (segment_table.h) and call each
// other one way. README.md has them in order.

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/types.h"
#include "cache/cache_options.h"
#include "cache/lease.h"
#include "cache/shared_access.h"
#include "cache/tier.h"
#include "explain/loss.h"
#include "index/text_match.h"
#include "os/clock.h"
#include "os/executor.h"
#include "store/disk_store.h"
#include "store/ram_store.h"

namespace kvkeep {
class TenantScope;
}
namespace kvkeep::cache {

struct CacheStats;
struct ClearScope;
struct Cleared;
struct ListedPrefix;
struct Listing;
struct StoredBytes;

class Cache {
 public:
  // `disk` may be null: no disk tier. The executors must outlive the cache; `writer` runs puts and removes, `reader`
  // runs gets. Indexes the segments that `disk` recovered. `further`: tiers below the disk, the fastest first.
  Cache(CacheOptions options, std::unique_ptr<store::DiskStore> disk, os::Clock& clock, os::Executor& writer,
        os::Executor& reader, std::vector<FurtherTier> further = {}, SharedSetup shared = {});
  ~Cache();
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;
  // Evicts, on the writer, segments that are over their time or the budget: call it once, after keep() of those that
  // must stay.
  void settle();

  // The longest known path whose text the prompt begins with, among segments whose rows some tier has: see
  // index/text_match.h. Holds nothing; lease() the resulting effective prompt.
  index::TextMatch match_text(TokenSpan prompt, const index::TokenTexts& texts, const Tenant& tenant = kNoTenant) const;
  // Returns the longest path of `prompt` whose rows some tier has, pinned, with its leaves. Never null; may be empty.
  std::shared_ptr<Lease> lease(TokenSpan prompt, const Tenant& tenant = kNoTenant);
  // Returns what lease() would find, and holds nothing. Changes nothing. Cost: as lease().
  StoredPrefix stored(TokenSpan prompt, const Tenant& tenant = kNoTenant);
  // Counts the leased path as used now (the time of use decides what is kept), and those of its leaves that
  // make `restored` restorable; without it, the last restorable position.
  void note_use(const Lease& lease, std::optional<Position> restored = std::nullopt);

  // Reads the payloads that the lease lacks in [range), then calls `done` from the reader executor (or at once, from
  // this thread, if none is lacking). An error drops the damaged or missing segment; the lease is good up to there.
  // Everything in the range is in memory at once, above the RAM budget if need be: load a long path in windows.
  // `point`: the leaves that must be restored last there are loaded too, before the rows, which are useless without
  // them. Fails with kNotFound if the position is not restorable from the lease.
  void load(std::shared_ptr<Lease> lease, TokenRange range, std::function<void(LoadResult)> done,
            std::optional<Position> point = std::nullopt);

  // A step or point of a lease is of no use: its bytes are damaged, or whole, and the model's memory refused them.
  void report_damaged(SegmentId segment, explain::LossCause cause = explain::LossCause::kDamaged);

  // Returns true if the shared tier may know more of prompts than this cache.
  bool can_seek() const;
  // Returns how long a look-up of the prompt may take to be worth it; nullopt if none is: enough of the prompt can be
  // restored from here, or the tier usually takes too long. Precondition: can_seek() returned true once.
  std::optional<double> search_patience_ms(TokenSpan prompt, const Tenant& tenant = kNoTenant) const;
  // Looks a prompt up in the shared tier: afterwards lease() gives found state like any other. Never waits; calls
  // `done` from another thread, in any case, and soon. Precondition: can_seek() returned true once.
  void seek(SeekOrder order, std::function<void(SeekResult)> done);
  // Returns true if state is published in a shared tier: segments then end where other servers can guess it.
  bool publishes() const;
  // Nullopt without a shared tier. Those that wait to be published are dropped when the cache ends.
  std::optional<share::ShareCounters> share_counters() const;
  // How fast prompts are prefilled now, by which publishing and reading from the shared tier are judged. Until it is
  // known, all is worth its time.
  void note_prefill_rate(double tokens_per_s);

  // Returns where the prompt leaves the known text, even if no tier has it any more; at most `count` tokens follow.
  // Does not count as a use. Cost: O(prompt), and the children of the segment where the path ends.
  Branch branch(TokenSpan prompt, std::size_t count, const Tenant& tenant = kNoTenant) const;

  // Returns when and why rows after unused.end, where the known part ends, or else a point or window within it were
  // lost; nullopt if none is known to be (lost_memory.h). Cost: one look-up, if nothing was lost there.
  std::optional<explain::LostState> lost_state(TokenSpan prompt, TokenRange unused, const Tenant& tenant) const;

  // A place at the end of the known part of `tokens`.
  Track track(TokenSpan tokens, const Tenant& tenant = kNoTenant);
  // Moves over the known part of `next`, the tokens after track.position(). Returns false if a forgotten segment that
  // is still held follows the new position, so that store() would refuse it.
  bool follow(Track& track, TokenSpan next);
  // Makes buffers for staging(), on the writer, as many as staging_limit allows; none if the cache accepts nothing.
  void prepare_staging(std::size_t count, std::size_t size_bytes);
  // A buffer for rows, already touched by the processor if one is free.
  store::StagingBuffer staging(std::size_t size_bytes);
  // Adds a segment of `tokens` at the track, whose rows are the first `size_bytes` of `rows`, and moves the track to
  // its end. Precondition: follow() was called, so the index does not know tokens[0] there; at most
  // format::kMaxSegmentTokens. Returns false if refused (no room, or the place is forgotten); the track stays.
  bool store(Track& track, TokenSpan tokens, store::StagingBuffer rows, std::size_t size_bytes,
             format::Origin origin = format::Origin::kPrompt);
  // The ids at `sampled` (ascending, apart; may reach beyond the path), from `from` on, were sampled, although the path
  // knew them as a prompt's: text matching may replace others by them. Not stored.
  void note_sampled(const Track& track, Position from, std::span<const TokenRange> sampled);
  // Adds a point or whole state at the track, the first `size_bytes` of `bytes`; the track stays. Returns false if
  // refused, or if there is one already. Precondition: the track is not at 0.
  bool store_point(const Track& track, format::PartKind kind, store::StagingBuffer bytes, std::size_t size_bytes,
                   Keeping keeping = Keeping::kOnDisk);
  // With kOnDisk, an existing point that was kept in RAM is written like others from now on.
  bool has_point(const Track& track, format::PartKind kind, Keeping keeping = Keeping::kOnDisk);
  // Forgets the points, whole states and windows at these positions of a path, at once or when they are released.
  // Leaves that others need stay: bases of states outside `positions`, and windows where another window begins.
  void forget_points(TokenSpan path, const std::vector<Position>& positions, const Tenant& tenant = kNoTenant);
  // Forgets the end of a path in every tier, as far as nothing else goes on from it and nobody uses it; returns where
  // the remembered part ends. kUnsupported if another server keeps the directory on disk, and would offer the state
  // again.
  Result<Position> forget(TokenSpan path, const Tenant& tenant = kNoTenant);
  // Eviction keeps the point or window at `at` on the track's path longer, and those between it and the track less
  // long. With nullopt the path's points are like others.
  void await_point(const Track& track, std::optional<Position> at);
  // The path that the track moved over, and its restorable positions, stay for `keep_ns` from now: until then eviction
  // takes them last, as far as kept state fills at most half of a tier. A later call may prolong that. Survives a
  // restart. At most policy::kLongestKeepNs. Cost: O(segments and leaves of the path).
  void keep(const Track& track, std::int64_t keep_ns);
  // Returns true if clear() took a part of the path that the track moved over.
  bool is_unwanted(const Track& track) const;
  // Runs of [from, track.position()) without window rows, each within one segment.
  std::vector<TokenRange> missing_windows(const Track& track, Position from) const;
  // Adds window rows of a run that missing_windows() named, or of a part of one. Returns false if refused.
  bool store_window(const Track& track, TokenRange range, store::StagingBuffer bytes, std::size_t size_bytes);
  // Returns true if store() may accept anything at all.
  bool accepts() const;
  // Returns true if there is room for `size_bytes` more, after making some: ask before you copy rows.
  bool make_room(std::size_t size_bytes);
  // The same for a point, or for all window rows of one window.
  bool make_room_for_point(std::size_t size_bytes);
  ByteCount point_bytes() const;

  // ---- for people (catalog.h; cache_stats.h) ----

  Listing list(SegmentId after, std::size_t most, const TenantScope& tenants) const;
  std::vector<ListedPrefix> hottest(std::size_t most, const TenantScope& tenants) const;
  // Bytes of the tenant's segments, points and windows.
  StoredBytes stored_by(const Tenant& tenant) const;
  Result<ListedPrefix> find(std::string_view digits, const TenantScope& tenants) const;
  // In whose trie it is; kNoTenant if it is not known any more.
  Tenant tenant_of(const ListedPrefix& prefix) const;
  // The token ids of a listed prefix from its beginning to its end; empty if it is not known any more.
  std::vector<TokenId> tokens_of(const ListedPrefix& prefix) const;
  // Forgets state in every tier, at once or when it is released. kUnsupported: see forget().
  Result<Cleared> clear(const ClearScope& scope);

  // For the audit. A path that a restore would read, chosen by `random`: among those whose last segment or leaf lies
  // only on disk, else among those in RAM. Returns nullopt if nothing is stored. Cost: O(segments and leaves).
  std::optional<StoredPath> random_path(std::uint64_t random) const;
  // An audit found stored state wrong: from now on this process finds and stores nothing; a note on disk tells others
  // (store/small_files.h).
  void distrust(const std::string& why);
  bool distrusted() const;

  // Does this server's part where several use the directory, on the writer: call it about once a second. Afterwards the
  // cache knows the segments that others stored.
  void tick();
  // Waits until everything accepted so far is durable or refused, then saves the index. Not from an executor's task.
  void flush();
  CacheStats stats() const;  // cache_stats.h

 private:
  struct Parts;
  const std::unique_ptr<Parts> parts_;
};

}  // namespace kvkeep::cache
