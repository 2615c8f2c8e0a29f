#include "cache/cache.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace kvkeep::cache {

// ---- Lease and Track: who holds what ----

Lease::Lease(Cache& cache, SegmentId pinned, std::vector<LeasedStep> steps, std::vector<LeasedPoint> points)
    : cache_(cache), pinned_(pinned), steps_(std::move(steps)), points_(std::move(points)) {}

Lease::~Lease() { cache_.unpin(pinned_); }

bool Lease::loaded(TokenRange range) const {
  return std::ranges::all_of(steps_, [&](const LeasedStep& step) {
    return step.range.end <= range.begin || step.range.begin >= range.end || step.payload != nullptr;
  });
}

Position Lease::loaded_until(Position from) const {
  Position end = from;
  for (const LeasedStep& step : steps_) {
    if (step.range.end <= from) continue;
    if (step.payload == nullptr) break;
    end = step.range.end;
  }
  return end;
}

void Lease::release_until(Position end) {
  for (LeasedStep& step : steps_) {
    if (step.range.end <= end) step.payload.reset();
  }
}

std::vector<RowPiece> Lease::pieces(TokenRange range) const {
  std::vector<RowPiece> pieces;
  for (const LeasedStep& step : steps_) {
    const TokenRange wanted{std::max(step.range.begin, range.begin), std::min(step.range.end, range.end)};
    if (wanted.begin >= wanted.end) continue;
    KVKEEP_ASSERT(step.payload != nullptr, "pieces of a lease that is not loaded");
    pieces.push_back({step.stored, wanted, step.payload->bytes()});
  }
  return pieces;
}

Track::Track(Cache& cache, index::Cursor cursor, const PrefixHasher& hasher)
    : cache_(&cache), cursor_(cursor), hasher_(hasher) {}

Track::Track(Track&& other) noexcept
    : cache_(std::exchange(other.cache_, nullptr)), cursor_(other.cursor_), hasher_(other.hasher_) {}

Track& Track::operator=(Track&& other) noexcept {
  if (this == &other) return *this;
  release();
  cache_ = std::exchange(other.cache_, nullptr);
  cursor_ = other.cursor_;
  hasher_ = other.hasher_;
  return *this;
}

Track::~Track() { release(); }

void Track::release() {
  if (cache_ != nullptr) cache_->unpin(cursor_.segment);
  cache_ = nullptr;
}

// ---- Cache: opening ----

Cache::Cache(CacheOptions options, std::unique_ptr<store::DiskStore> disk, os::Clock& clock, os::Executor& writer,
             os::Executor& reader)
    : options_(options),
      disk_(std::move(disk)),
      clock_(clock),
      writer_(writer),
      reader_(reader),
      pool_({.idle_limit = staging_limit(options.ram_budget)}),
      entries_(1) {
  if (disk_ != nullptr) recover();
}

Cache::~Cache() {
  writer_.drain();
  reader_.drain();
}

void Cache::recover() {
  const std::vector<store::StoredSegment> found = disk_->take_recovered();
  std::vector<index::NamedSegment> named;
  named.reserve(found.size());
  for (const store::StoredSegment& segment : found) {
    const format::SegmentName& name = segment.header.name;
    named.push_back({{name.begin, name.end}, name.begin_hash, name.end_hash, segment.header.tokens});
  }
  MutexLock lock(mutex_);
  unsaved_headers_ = disk_->counters().headers_read;
  const std::vector<index::Placement> placements = index::rebuild(index_, options_.fingerprint, named);
  for (std::size_t i = 0; i < found.size(); ++i) place(found[i], placements[i]);
  writer_.post([this] { fit_disk_budget(); });
}

void Cache::place(const store::StoredSegment& found, const index::Placement& placement) {
  const bool has_rows = std::ranges::any_of(
      found.header.parts, [](const format::Part& part) { return part.kind == format::PartKind::kRows; });
  if (placement.outcome != index::Placement::Outcome::kPlaced || !has_rows) {
    // A prefix that nothing reaches any more (its parent was lost) cannot be restored: give its bytes back.
    if (placement.outcome == index::Placement::Outcome::kPlaced) bury(placement.segment);
    writer_.post([this, name = found.header.name] { (void)disk_->remove(name).ok(); });
    return;
  }
  Entry& added = entry(placement.segment);
  added = Entry{};
  added.live = true;
  added.part = found.header.parts.front();
  added.stored_begin = found.header.name.begin;
  added.stored_begin_hash = found.header.name.begin_hash;
  added.last_used_ns = found.modified_ns;
  added.disk = DiskState::kOnDisk;
}

// ---- bookkeeping ----

Cache::Entry& Cache::entry(SegmentId segment) {
  if (segment.value() >= entries_.size()) entries_.resize(segment.value() + 1);
  return entries_[segment.value()];
}

bool Cache::available(const Entry& entry) const {
  return !entry.dead && (entry.payload != nullptr || entry.disk == DiskState::kOnDisk);
}

bool Cache::in_use(const Entry& entry) {
  return entry.pins > 0 || entry.disk == DiskState::kWriting || entry.disk == DiskState::kRemoving;
}

void Cache::pin(SegmentId segment) {
  if (segment != kRootSegment) ++entry(segment).pins;
}

void Cache::unpin(SegmentId segment) {
  if (segment == kRootSegment) return;
  MutexLock lock(mutex_);
  Entry& held = entry(segment);
  KVKEEP_ASSERT(held.pins > 0, "a segment was released more often than held");
  --held.pins;
  if (!dead_.empty()) sweep_dead();
}

ByteCount Cache::ram_limit() const {
  return disk_ == nullptr ? options_.ram_budget : std::max(options_.ram_budget, kMinimumWriteQueue);
}

void Cache::drop_payload(Entry& held) {
  if (held.payload == nullptr) return;
  ram_used_ -= ByteCount{held.payload->size()};
  held.payload.reset();
}

void Cache::erase(SegmentId segment) {
  Entry& leaving = entry(segment);
  drop_payload(leaving);
  leaving = Entry{};
  index_.erase(segment);
}

// ---- looking up ----

std::shared_ptr<Lease> Cache::lease(TokenSpan prompt) {
  MutexLock lock(mutex_);
  std::vector<LeasedStep> steps;
  for (const index::Step& step : index_.match(prompt)) {
    const Entry& known = entry(step.segment);
    if (!available(known)) break;
    const Tier tier = known.payload != nullptr ? Tier::kRam : Tier::kDisk;
    const TokenRange stored{known.stored_begin, index_.info(step.segment).range.end};
    steps.push_back({step.segment, step.range, stored, tier, ByteCount{known.part.size_bytes}, known.payload});
  }
  const SegmentId deepest = steps.empty() ? kRootSegment : steps.back().segment;
  pin(deepest);
  return std::make_shared<Lease>(*this, deepest, std::move(steps));
}

void Cache::note_use(const Lease& lease) {
  if (lease.steps().empty()) return;
  MutexLock lock(mutex_);
  const std::int64_t now_ns = clock_.wall_ns();
  for (const LeasedStep& step : lease.steps()) {
    Entry& used = entry(step.segment);
    used.last_used_ns = now_ns;
    ++used.hits;
  }
  // The leaf's file time carries recency over a restart; ancestors are at least as recent by structure.
  const SegmentId leaf = lease.steps().back().segment;
  if (entry(leaf).disk != DiskState::kOnDisk) return;
  writer_.post([this, name = header_of(leaf).name] {
    disk_->touch(name);
    note_unsaved_header();
  });
}

format::SegmentHeader Cache::header_of(SegmentId segment) {
  const Entry& known = entry(segment);
  const index::SegmentInfo& info = index_.info(segment);
  format::SegmentHeader header;
  header.fingerprint = options_.fingerprint;
  header.name = {known.stored_begin, info.range.end, known.stored_begin_hash, info.end_hash};
  header.parts = {known.part};
  if (known.stored_begin == info.range.begin) {
    const TokenSpan tokens = index_.tokens(segment);
    header.tokens.assign(tokens.begin(), tokens.end());
  } else {  // the file overlaps its neighbours: its first ids are theirs
    const std::vector<TokenId> path = index_.path_tokens({segment, info.range.end});
    header.tokens.assign(path.begin() + known.stored_begin.value(), path.end());
  }
  return header;
}

// ---- dead segments ----

void Cache::bury(SegmentId segment) {
  Entry& known = entry(segment);
  if (known.dead) return;
  known.dead = true;
  dead_.push_back(segment);
}

void Cache::sweep_dead() {
  std::vector<SegmentId> waiting;
  for (const SegmentId root : std::exchange(dead_, {})) {
    if (!index_.contains(root)) continue;  // went with a dead ancestor
    if (subtree_held(root)) {
      waiting.push_back(root);
    } else {
      erase_subtree(root);
    }
  }
  dead_ = std::move(waiting);
}

bool Cache::subtree_held(SegmentId segment) {
  if (in_use(entry(segment))) return true;
  return std::ranges::any_of(index_.children(segment),
                             [&](SegmentId child) REQUIRES(mutex_) { return subtree_held(child); });
}

void Cache::erase_subtree(SegmentId segment) {
  for (const SegmentId child : index_.children(segment)) erase_subtree(child);
  if (entry(segment).disk == DiskState::kOnDisk) {
    writer_.post([this, name = header_of(segment).name] { (void)disk_->remove(name).ok(); });
  }
  erase(segment);
}

// ---- storing ----

Track Cache::track(TokenSpan tokens) {
  Track track(*this, {}, PrefixHasher(options_.fingerprint));
  follow(track, tokens);
  return track;
}

bool Cache::follow(Track& track, TokenSpan next) {
  MutexLock lock(mutex_);
  index::Cursor reached = index_.advance(track.cursor_, next);
  const std::optional<Position> dead = dead_from(reached.segment);
  if (dead) {
    if (*dead <= track.cursor_.at) return false;
    reached = index_.advance(track.cursor_, next.first(*dead - track.cursor_.at));
  }
  if (reached == track.cursor_) return !dead;
  track.hasher_.append(next.first(reached.at - track.cursor_.at));
  pin(reached.segment);
  const SegmentId before = std::exchange(track.cursor_, reached).segment;
  if (before != kRootSegment) --entry(before).pins;
  return !dead;
}

// Where the first dead segment on the path to `segment` begins.
std::optional<Position> Cache::dead_from(SegmentId segment) {
  if (dead_.empty() || segment == kRootSegment) return std::nullopt;
  for (const SegmentId on_path : index_.path(segment)) {
    if (entry(on_path).dead) return index_.info(on_path).range.begin;
  }
  return std::nullopt;
}

void Cache::prepare_staging(std::size_t count, std::size_t size_bytes) {
  if (accepts()) pool_.prepare(count, size_bytes, &writer_);
}

store::StagingBuffer Cache::staging(std::size_t size_bytes) { return pool_.acquire(size_bytes); }

bool Cache::accepts() const { return disk_ != nullptr || options_.ram_budget > ByteCount{0}; }

bool Cache::store(Track& track, TokenSpan tokens, store::StagingBuffer rows, std::size_t size_bytes) {
  KVKEEP_ASSERT(!tokens.empty() && tokens.size() <= format::kMaxSegmentTokens, "a segment of no or too many tokens");
  const PrefixHash begin_hash = track.hasher_.current();
  PrefixHasher hasher = track.hasher_;
  hasher.append(tokens);
  SegmentId added;
  {
    MutexLock lock(mutex_);
    const bool known = index_.advance(track.cursor_, tokens.first(1)).at != track.cursor_.at;
    const ByteCount size{size_bytes};
    if (known || dead_from(track.cursor_.segment) || !accepts() || ram_used_ + size > ram_limit()) {
      ++counters_.refused;
      return false;
    }
    added = index_.insert(track.cursor_, tokens, begin_hash, hasher.current());
    Entry& fresh = entry(added);
    fresh = Entry{};
    fresh.live = true;
    fresh.payload = std::move(rows).freeze(size_bytes);
    fresh.part.size_bytes = size_bytes;
    fresh.stored_begin = track.cursor_.at;
    fresh.stored_begin_hash = begin_hash;
    fresh.last_used_ns = clock_.wall_ns();
    fresh.disk = disk_ != nullptr ? DiskState::kWaiting : DiskState::kNone;
    ram_used_ += ByteCount{size_bytes};
    ++counters_.stored;
    ++counters_.waiting_writes;
    pin(added);
    const SegmentId before = std::exchange(track.cursor_, {added, track.cursor_.at + tokens.size()}).segment;
    if (before != kRootSegment) --entry(before).pins;
  }
  track.hasher_ = hasher;
  writer_.post([this, added] { write_back(added); });
  return true;
}

bool Cache::make_room(std::size_t size_bytes) {
  const ByteCount size{size_bytes};
  MutexLock lock(mutex_);
  // Memory only, and rarely: each time makes room for many segments.
  if (accepts() && ram_used_ + size > ram_limit()) make_ram_room(ram_limit(), size);
  const bool room = accepts() && ram_used_ + size <= ram_limit();
  if (!room) ++counters_.refused;
  return room;
}

void Cache::flush() {
  writer_.drain();
  reader_.drain();
  if (disk_ != nullptr) disk_->save_index();
}

CacheStats Cache::stats() const {
  MutexLock lock(mutex_);
  CacheStats stats = counters_;
  stats.segments = index_.segment_count();
  stats.tokens = index_.token_count();
  stats.index_memory = index_.memory() + ByteCount{entries_.capacity() * sizeof(Entry)};
  stats.staging_idle = pool_.idle_bytes();
  stats.fresh_buffers = pool_.fresh_count();
  stats.ram_used = ram_used_;
  stats.ram_budget = options_.ram_budget;
  if (disk_ != nullptr) {
    stats.disk_used = disk_->used();
    stats.disk_budget = disk_->budget();
  }
  return stats;
}

}  // namespace kvkeep::cache
