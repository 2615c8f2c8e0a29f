#pragma once

// The cache: what is known of every prefix, and where its rows can be had.
//
// The one room with state transitions between tiers. It joins the prefix index (which prefixes are known), the RAM tier
// (payloads held in memory) and the disk tier (immutable files), asks policy what may leave, and does it. The model's
// own memory is not here: see model_memory.h.
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
// full disk refused. See held_back_. Whole states are stored as differences from an earlier whole state on their path,
// their base, where that has a tenth of them: chains of at most kMaxBuiltStates. A base leaves after what is built on
// it, and takes it along when damaged. Rows of no bytes (models that have only points) are token ids alone: held in RAM
// until they are on disk, never read.
//
// Tenants (base/tenant.h) share nothing but the budgets: what one of them asks for is looked up in its own alone.
// Thread safe. Nothing here waits for disk except flush() and the tasks on the two executors.

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/hash.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/tenant.h"
#include "base/types.h"
#include "cache/cache_options.h"
#include "cache/lease.h"
#include "cache/model_memory.h"
#include "index/prefix_index.h"
#include "index/text_match.h"
#include "os/clock.h"
#include "os/executor.h"
#include "policy/admit.h"
#include "policy/evict.h"
#include "policy/evict_order.h"
#include "policy/plan.h"
#include "policy/turnover.h"
#include "store/disk_store.h"
#include "store/ram_store.h"

namespace kvkeep::cache {

class Cache {
 public:
  // `disk` may be null: no disk tier. The executors must outlive the cache; `writer` runs puts and removes, `reader`
  // runs gets. What `disk` recovered is indexed here.
  Cache(CacheOptions options, std::unique_ptr<store::DiskStore> disk, os::Clock& clock, os::Executor& writer,
        os::Executor& reader);
  ~Cache();
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;
  // What is over its time or the budget leaves, on the writer: call it once, after keep() of what must stay.
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
  // What the track moved over, and where it can be gone on with, stays for `keep_ns` from now: until then eviction
  // takes it last, as far as it is not more than half of a tier. A later call may prolong it. Survives a restart. At
  // most policy::kLongestKeepNs. Cost: O(segments and leaves of the path).
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
  ByteCount point_bytes() const { return options_.point_bytes; }

  // For the audit (audit.cc). A path that a restore would read, by `random` among all there are: of those whose last
  // segment or leaf lies on disk alone, or else of those in RAM. nullopt: nothing is stored. Cost: O(what is stored).
  std::optional<StoredPath> random_path(std::uint64_t random) const;
  // What is stored was found to be wrong: from now on nothing of it is found, and nothing is stored any more, in this
  // process; the note that is left on disk says so to others (store/distrust.h).
  void distrust(const std::string& why);
  bool distrusted() const { return distrusted_; }

  // Does this server's part where several use the directory, on the writer: call it about once a second. What others
  // stored is known afterwards.
  void tick();
  // Waits until everything accepted so far is durable or given up, then saves the index. Not from an executor's task.
  void flush();
  CacheStats stats() const;

 private:
  friend class Lease;
  friend class Track;

  // kUnwritten: nobody is about to write it, because it is too short or its write failed; what continues it takes it
  // along.
  enum class DiskState : std::uint8_t { kNone, kWaiting, kWriting, kOnDisk, kRemoving, kUnwritten };
  // What the cache knows of a segment or leaf beside the index.
  struct Entry {
    std::shared_ptr<const store::Payload> payload;
    ByteCount charged;      // counted in ram_used_ for the payload
    format::Part part;      // its kind and size; the sum is the store's
    Position stored_begin;  // rows begin here; the index may show a later begin where others overlap
    PrefixHash stored_begin_hash;
    std::int64_t last_used_ns = 0;
    std::uint64_t serial = 0;        // tells it from others that had its number before
    std::int64_t kept_until_ns = 0;  // see keep(); 0: nobody asked
    std::uint32_t hits = 0;
    std::uint32_t pins = 0;
    DiskState disk = DiskState::kNone;
    std::uint8_t refusals = 0;         // reads that the device refused
    std::uint64_t leaves_written = 0;  // see unwritten_leaves()
    policy::Outlook outlook = policy::Outlook::kOpen;
    Keeping keeping = Keeping::kOnDisk;
    bool dead = false;
    bool live = false;  // the slot is in use
    // Of a whole state (the root: built on none): `payload` and the file are the differences, `state` what comes out.
    SegmentId base;
    std::shared_ptr<const store::Payload> state;
  };

  void recover();
  bool place(const store::StoredSegment& found, const index::Placement& placement) REQUIRES(mutex_);
  std::optional<SegmentId> recovered_base(SegmentId leaf, Position base) const REQUIRES(mutex_);
  static bool available(const Entry& entry);
  static bool in_use(const Entry& entry);  // by a request, or by the writer at this moment
  static bool needs_its_path(const Entry& entry) { return in_use(entry) || entry.disk == DiskState::kWaiting; }
  static bool is_leaf(const Entry& entry) { return entry.part.kind != format::PartKind::kRows; }
  Entry& entry(SegmentId segment) REQUIRES(mutex_);
  const Entry& entry(SegmentId segment) const REQUIRES(mutex_);
  void pin(SegmentId segment) REQUIRES(mutex_);
  void unpin(SegmentId segment) EXCLUDES(mutex_);
  void release(const Lease& lease) EXCLUDES(mutex_);
  ByteCount ram_limit() const REQUIRES(mutex_);
  void hold_payload(SegmentId segment, std::shared_ptr<const store::Payload> payload) REQUIRES(mutex_);
  void drop_payload(SegmentId segment) REQUIRES(mutex_);
  void set_disk(SegmentId segment, DiskState state) REQUIRES(mutex_);
  ByteCount file_size(SegmentId segment) const REQUIRES(mutex_);
  Entry& begin_life(SegmentId segment) REQUIRES(mutex_);
  void erase(SegmentId segment) REQUIRES(mutex_);

  std::optional<SegmentId> used_last_below(index::Cursor at) const REQUIRES(mutex_);
  std::vector<LeasedPoint> lease_points(const std::vector<LeasedStep>& steps) REQUIRES(mutex_);
  void use(SegmentId segment, std::int64_t now_ns) REQUIRES(mutex_);
  void note_file_time(SegmentId segment, std::int64_t modified_ns) REQUIRES(mutex_);
  void post_touch(SegmentId segment) REQUIRES(mutex_);

  // What store() and its likes hand over.
  struct Fresh {
    format::PartKind kind = format::PartKind::kRows;
    PrefixHash begin_hash;
    std::shared_ptr<const store::Payload> payload;
    Keeping keeping = Keeping::kOnDisk;
  };
  bool has_room(std::size_t size_bytes) const REQUIRES(mutex_);
  void admit(SegmentId added, Fresh fresh) REQUIRES(mutex_);
  bool others_need(SegmentId leaf) const REQUIRES(mutex_);
  bool window_over(SegmentId segment, Position at) const REQUIRES(mutex_);
  bool attach(index::Cursor at, TokenRange range, const PrefixHash& end_hash, Fresh fresh) EXCLUDES(mutex_);
  index::Cursor cursor_of(const Track& track, TokenRange range) const REQUIRES(mutex_);
  void add_gaps(index::Cursor at, Position from, std::vector<TokenRange>& gaps) const REQUIRES(mutex_);

  // Whole states and what they are built on (built_states.cc).
  struct Link {
    SegmentId segment;
    format::SegmentHeader header;
    std::shared_ptr<const store::Payload> stored;
    std::shared_ptr<const store::Payload> state;
  };
  std::vector<Link> chain_to(SegmentId segment) REQUIRES(mutex_);
  bool in_ram(SegmentId leaf) const REQUIRES(mutex_);
  std::vector<SegmentId> built_on(SegmentId base) const REQUIRES(mutex_);
  void set_base(SegmentId leaf, SegmentId base) REQUIRES(mutex_);
  void forget_base(SegmentId leaf) REQUIRES(mutex_);
  SegmentId base_for(SegmentId leaf) const REQUIRES(mutex_);
  void build_state(SegmentId leaf);
  void adopt_built(SegmentId leaf, SegmentId base, ByteSpan stored, std::size_t state_bytes) REQUIRES(mutex_);
  void hold_state(SegmentId leaf, std::shared_ptr<const store::Payload> state) EXCLUDES(mutex_);
  void drop_state(SegmentId leaf) REQUIRES(mutex_);
  void drop_states(ByteCount limit) REQUIRES(mutex_);
  Status read_stored(Link& link, LoadResult& result);
  Status load_into(SegmentId segment, std::shared_ptr<const store::Payload>& payload, LoadResult& result);
  Status load_point(Lease& lease, Position at, LoadResult& result);
  bool refused_again(SegmentId segment) EXCLUDES(mutex_);
  void admit_loaded(SegmentId segment, const std::shared_ptr<const store::Payload>& payload) EXCLUDES(mutex_);
  format::SegmentHeader header_of(SegmentId segment) REQUIRES(mutex_);

  // What cannot be had any more (dead.cc).
  void log_damaged(SegmentId segment) REQUIRES(mutex_);
  void bury(SegmentId segment) REQUIRES(mutex_);
  void sweep_dead() REQUIRES(mutex_);
  std::optional<Position> dead_from(SegmentId segment) REQUIRES(mutex_);
  std::vector<SegmentId> subtree(SegmentId root) const REQUIRES(mutex_);
  bool any_in_subtree(SegmentId root, bool (*holds)(const Entry&)) const REQUIRES(mutex_);
  void append_below(std::vector<SegmentId>& to, SegmentId segment) const REQUIRES(mutex_);
  void erase_subtree(SegmentId segment) REQUIRES(mutex_);

  // In the writer's queue, or held back from it.
  struct Waiting {
    SegmentId segment;
    std::uint64_t serial = 0;
    ByteCount bytes;
  };
  ByteCount write_queue_limit() const REQUIRES(mutex_);
  void queue_write(SegmentId segment) REQUIRES(mutex_);
  void hold_back(SegmentId segment) REQUIRES(mutex_);
  void queue_held_back() EXCLUDES(mutex_);
  bool queue_oldest_held_back() REQUIRES(mutex_);
  void keep_on_disk(SegmentId leaf) REQUIRES(mutex_);
  void queue_or_hold_back(SegmentId segment) REQUIRES(mutex_);
  bool queue_unwritten(SegmentId segment, std::uint64_t serial) REQUIRES(mutex_);
  void try_stopped_disk() EXCLUDES(mutex_);
  void note_disk_room() REQUIRES(mutex_);
  void write_back(const Waiting& waiting);
  void write_path(SegmentId segment);
  std::vector<SegmentId> unwritten_path(SegmentId segment) REQUIRES(mutex_);
  std::vector<SegmentId> unwritten_leaves(SegmentId segment) REQUIRES(mutex_);
  bool write_one(SegmentId segment);
  bool takes_along(SegmentId leaf) const REQUIRES(mutex_);
  void drain_writes() EXCLUDES(mutex_);

  // A day's writing (wear.cc).
  policy::WriteOffer write_offer(SegmentId segment, const std::vector<SegmentId>& path) const REQUIRES(mutex_);
  Position stop_before(SegmentId leaf) const REQUIRES(mutex_);
  bool spares_writes_for(SegmentId segment, const std::vector<SegmentId>& path) EXCLUDES(mutex_);
  bool may_write_more(SegmentId segment) EXCLUDES(mutex_);
  void put_off(SegmentId segment) REQUIRES(mutex_);
  void offer_again(SegmentId segment) REQUIRES(mutex_);
  void offer_put_off() EXCLUDES(mutex_);

  // A time to live (expiry.cc).
  void expire_all() EXCLUDES(mutex_);
  bool expire_portion() EXCLUDES(mutex_);
  bool may_expire(SegmentId segment) const REQUIRES(mutex_);
  std::optional<SegmentId> expire(SegmentId segment) EXCLUDES(mutex_);

  // Other servers (sharing.cc).
  void share(store::Look look = store::Look::kWhenDue);
  void expire_foreign();
  bool has_orphans() const EXCLUDES(mutex_);
  void adopt(std::vector<store::StoredSegment> found, bool looked) EXCLUDES(mutex_);
  void note_used_by_others(const std::vector<store::UsedSegment>& used) EXCLUDES(mutex_);
  std::optional<SegmentId> named(const format::SegmentName& name) const REQUIRES(mutex_);
  bool note_written_by_other(const format::SegmentHeader& header) REQUIRES(mutex_);
  void forget_gone(const std::vector<format::SegmentName>& gone) EXCLUDES(mutex_);
  void forget_file(SegmentId segment) REQUIRES(mutex_);
  void note_distrust();
  void heed_distrust();
  bool make_disk_room(ByteCount needed);
  ByteCount evict_foreign(ByteCount needed, store::Kept kept);
  void note_refused(SegmentId segment) REQUIRES(mutex_);
  void write_refused() EXCLUDES(mutex_);

  void note_refusal(const Error& error) REQUIRES(mutex_);
  void fit_disk_budget();
  ByteCount over_disk_budget() const;
  ByteCount disk_slack() const;
  Status put_with_room(const format::SegmentHeader& header, const store::Payload& payload);
  ByteCount points_room() const;
  bool make_points_room(ByteCount file) EXCLUDES(mutex_);
  policy::EvictCandidate disk_candidate(SegmentId segment) const REQUIRES(mutex_);
  policy::EvictCandidate ram_candidate(SegmentId segment) const REQUIRES(mutex_);
  void note_changed(SegmentId segment) REQUIRES(mutex_);
  std::vector<SegmentId> disk_victims(ByteCount needed, bool points_only) EXCLUDES(mutex_);
  std::vector<SegmentId> ram_victims(ByteCount needed) REQUIRES(mutex_);
  Result<ByteCount> remove_from_disk(SegmentId victim) EXCLUDES(mutex_);
  static bool stays_in_ram(const Entry& entry);
  static bool lost_in_ram(const Entry& entry);  // a mistake that tests make
  void forget_in_ram(SegmentId victim) REQUIRES(mutex_);
  policy::EvictCandidate candidate_of(SegmentId segment) const REQUIRES(mutex_);
  bool evict_from_disk(ByteCount needed, bool points_only = false);
  bool stays_on_disk(SegmentId segment) const REQUIRES(mutex_);
  bool completes_unwritten_window(SegmentId leaf) const REQUIRES(mutex_);
  bool nothing_below(SegmentId segment) const REQUIRES(mutex_);
  bool may_leave_disk(SegmentId segment) REQUIRES(mutex_);
  void note_unsaved_header();
  void settle_payload(SegmentId segment);
  void trim_ram();
  void make_ram_room(ByteCount limit, ByteCount room) REQUIRES(mutex_);

  const CacheOptions options_;
  const std::unique_ptr<store::DiskStore> disk_;
  os::Clock& clock_;
  os::Executor& writer_;
  os::Executor& reader_;
  store::BufferPool pool_;
  std::atomic<bool> ticking_ = false;
  std::atomic<bool> distrusted_ = false;
  std::string unnoted_distrust_;  // the writer's alone
  bool said_unnoted_ = false;     // and these
  bool said_stopped_ = false;
  std::optional<std::int64_t> foreign_expired_ns_;  // looked at last

  mutable Mutex mutex_;
  index::PrefixIndex index_ GUARDED_BY(mutex_);
  std::vector<Entry> entries_ GUARDED_BY(mutex_);
  std::vector<SegmentId> dead_ GUARDED_BY(mutex_);  // roots of subtrees to drop when nobody holds them
  std::unordered_map<SegmentId, std::vector<SegmentId>> built_on_ GUARDED_BY(mutex_);  // by base
  std::vector<store::StoredSegment> orphans_ GUARDED_BY(mutex_);                 // others' files, seen in one look
  std::vector<std::pair<SegmentId, std::uint64_t>> refused_ GUARDED_BY(mutex_);  // and their serials: no room on disk
  std::vector<SegmentId> held_states_ GUARDED_BY(mutex_);  // whole states of which Entry::state is there
  // Not on disk, though what continues them is: other hands removed them, and RAM has them.
  std::unordered_set<SegmentId> holes_ GUARDED_BY(mutex_);
  std::uint64_t leaves_unwritten_ GUARDED_BY(mutex_) = 1;  // times that a leaf was left for what continues it
  ByteCount ram_used_ GUARDED_BY(mutex_);
  policy::EvictOrder disk_order_ GUARDED_BY(mutex_);
  policy::EvictOrder ram_order_ GUARDED_BY(mutex_);
  // Changes of what is where, of use, and of what is held; and how many there were when nothing could leave the disk:
  // of all, and of points. Until the next one nothing can.
  std::uint64_t changes_ GUARDED_BY(mutex_) = 0;
  std::array<std::optional<std::uint64_t>, 2> nothing_left_ GUARDED_BY(mutex_);
  policy::Turnover disk_turnover_ GUARDED_BY(mutex_);
  policy::Turnover ram_turnover_ GUARDED_BY(mutex_);
  ByteCount queued_bytes_ GUARDED_BY(mutex_);         // in the writer's queue
  std::deque<Waiting> held_back_ GUARDED_BY(mutex_);  // oldest first; what left RAM meanwhile is passed over
  std::deque<Waiting> put_off_ GUARDED_BY(mutex_);    // for lack of writes that are left today; as held_back_
  double usual_worth_ GUARDED_BY(mutex_) = 0;         // of what was offered to the disk, see policy/admit.h
  std::uint32_t expiry_at_ GUARDED_BY(mutex_) = 0;    // looked at last; 0: a round begins
  bool limits_writes_ GUARDED_BY(mutex_) = false;
  bool disk_stopped_ GUARDED_BY(mutex_) = false;  // as it was told in the log
  bool closing_ GUARDED_BY(mutex_) = false;
  ByteCount largest_point_ GUARDED_BY(mutex_);          // that room was asked for: some models' points grow
  std::size_t unsaved_headers_ GUARDED_BY(mutex_) = 0;  // files written or used since the disk's index was saved
  CacheStats counters_ GUARDED_BY(mutex_);              // only the counters of it are kept here
};

}  // namespace kvkeep::cache
