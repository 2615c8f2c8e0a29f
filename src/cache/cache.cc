#include "cache/cache.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "base/assert.h"
#include "cache/mutations.h"

namespace kvkeep::cache {

// ---- opening ----

Cache::Cache(CacheOptions options, std::unique_ptr<store::DiskStore> disk, os::Clock& clock, os::Executor& writer,
             os::Executor& reader)
    : options_(options),
      disk_(std::move(disk)),
      clock_(clock),
      writer_(writer),
      reader_(reader),
      pool_({.idle_limit = staging_limit(options.ram_budget, options.point_bytes)}),
      entries_(1),
      disk_order_(*options.score, {options.shape.needs_points(), options.shape.window_tokens}),
      ram_order_(*options.score, {options.shape.needs_points(), options.shape.window_tokens}) {
  if (disk_ != nullptr) recover();
}

Cache::~Cache() {
  {
    MutexLock lock(mutex_);
    closing_ = true;  // no task begets others
  }
  writer_.drain();
  reader_.drain();
}

void Cache::recover() {
  {
    const auto writes = disk_->writes();  // takes the store's lock, which comes before ours
    if (writes && writes->disbelieved) {
      spdlog::warn(
          "kv disk: the file 'writes' in the cache directory cannot be read or is damaged, so that nothing counts as "
          "left of what may be written today (--kv-disk-write-mb-per-day): storing on disk goes on little by little, "
          "as the day passes; to begin with a full allowance, stop the servers and delete that file");
    }
    MutexLock lock(mutex_);
    limits_writes_ = writes.has_value();
    unsaved_headers_ = disk_->counters().headers_read;
  }
  adopt(disk_->take_recovered(), true);
}

// Not part of opening: what is pinned can only be kept once it is indexed, and must be before anything may leave.
void Cache::settle() {
  if (disk_ == nullptr) return;
  writer_.post([this] {
    expire_foreign();
    expire_all();
    fit_disk_budget();
  });
}

// ---- bookkeeping ----

Cache::Entry& Cache::entry(SegmentId segment) {
  if (segment.value() >= entries_.size()) entries_.resize(segment.value() + 1);
  return entries_[segment.value()];
}

const Cache::Entry& Cache::entry(SegmentId segment) const {
  KVKEEP_ASSERT(segment.value() < entries_.size(), "a segment without an entry");
  return entries_[segment.value()];
}

bool Cache::available(const Entry& entry) {
  return entry.live && (!entry.dead || mutations().offer_dead) &&
         (entry.payload != nullptr || entry.disk == DiskState::kOnDisk);
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
  ++changes_;
  if (!dead_.empty()) sweep_dead();
}

void Cache::release(const Lease& lease) {
  MutexLock lock(mutex_);
  ++changes_;
  const auto let_go = [&](SegmentId held) REQUIRES(mutex_) {
    if (held == kRootSegment) return;
    KVKEEP_ASSERT(entry(held).pins > 0, "a segment was released more often than held");
    --entry(held).pins;
  };
  let_go(lease.pinned_);
  for (const LeasedPoint& point : lease.points_) let_go(point.id);
  if (!dead_.empty()) sweep_dead();
}

ByteCount Cache::ram_limit() const {
  if (disk_ == nullptr) return options_.ram_budget;
  return std::max(options_.ram_budget, kMinimumWriteQueue + largest_point_ + largest_point_);
}

// Rows of no bytes cost their token ids, or else nothing would ever ask a cache without a disk to forget them.
void Cache::hold_payload(SegmentId segment, std::shared_ptr<const store::Payload> payload) {
  Entry& held = entry(segment);
  held.charged = ByteCount{payload->size() > 0 ? payload->size() : index_.info(segment).range.size() * sizeof(TokenId)};
  held.payload = std::move(payload);
  ram_used_ += held.charged;
  if (is_leaf(held)) counters_.points_ram += held.charged;
  note_changed(segment);
}

void Cache::drop_payload(SegmentId segment) {
  drop_state(segment);
  Entry& held = entry(segment);
  if (held.payload == nullptr) return;
  ram_used_ -= held.charged;
  if (is_leaf(held)) counters_.points_ram -= held.charged;
  held.payload.reset();
  note_changed(segment);
}

void Cache::set_disk(SegmentId segment, DiskState state) {
  const auto there = [](DiskState disk) { return disk == DiskState::kOnDisk || disk == DiskState::kRemoving; };
  Entry& known = entry(segment);
  const DiskState before = std::exchange(known.disk, state);
  if (state == DiskState::kOnDisk) holes_.erase(segment);
  if (state == DiskState::kUnwritten && takes_along(segment)) ++leaves_unwritten_;
  note_changed(segment);
  if (!is_leaf(known) || there(before) == there(state)) return;
  (there(state) ? counters_.points_disk += file_size(segment) : counters_.points_disk -= file_size(segment));
}

// On disk, of the whole file.
ByteCount Cache::file_size(SegmentId segment) const {
  const Entry& known = entry(segment);
  const std::size_t tokens = index_.info(segment).range.end - known.stored_begin;
  return os::physical_size(ByteCount{format::encoded_header_size(1, tokens) + known.part.size_bytes});
}

// Of what the index just learned.
Cache::Entry& Cache::begin_life(SegmentId segment) {
  Entry& begun = entry(segment);
  begun = Entry{};
  begun.live = true;
  return begun;
}

void Cache::erase(SegmentId segment) {
  set_disk(segment, DiskState::kNone);
  drop_payload(segment);
  forget_base(segment);
  holes_.erase(segment);
  entry(segment) = Entry{};
  note_changed(segment);
  index_.erase(segment);
}

// ---- looking up ----

index::TextMatch Cache::match_text(TokenSpan prompt, const index::TokenTexts& texts, const Tenant& tenant) const {
  if (distrusted_) return {};
  MutexLock lock(mutex_);
  const auto usable = [&](SegmentId segment) REQUIRES(mutex_) { return available(entry(segment)); };
  return index::match_text(index_, prompt, texts, usable, tenant);
}

std::shared_ptr<Lease> Cache::lease(TokenSpan prompt, const Tenant& tenant) {
  static const std::shared_ptr<const store::Payload> kNoBytes = store::PayloadBuffer::allocate(0).freeze();
  MutexLock lock(mutex_);
  std::vector<LeasedStep> steps;
  for (const index::Step& step : distrusted_ ? std::vector<index::Step>{} : index_.match(prompt, tenant)) {
    const Entry& known = entry(step.segment);
    if (!available(known)) break;
    const auto payload = known.part.size_bytes == 0 ? kNoBytes : known.payload;
    const Tier tier = payload != nullptr ? Tier::kRam : Tier::kDisk;
    const TokenRange stored{known.stored_begin, index_.info(step.segment).range.end};
    steps.push_back({step.segment, step.range, stored, tier, ByteCount{known.part.size_bytes}, payload});
  }
  const SegmentId deepest = steps.empty() ? kRootSegment : steps.back().segment;
  pin(deepest);
  std::vector<LeasedPoint> points = lease_points(steps);
  return std::make_shared<Lease>(*this, deepest, std::move(steps), std::move(points));
}

void Cache::use(SegmentId segment, std::int64_t now_ns) {
  Entry& used = entry(segment);
  used.last_used_ns = now_ns;
  ++used.hits;
  note_changed(segment);
}

// It says when the file was used, or until when it is kept.
void Cache::note_file_time(SegmentId segment, std::int64_t modified_ns) {
  const std::int64_t now_ns = clock_.wall_ns();
  Entry& told = entry(segment);
  told.last_used_ns = std::max(told.last_used_ns, std::min(modified_ns, now_ns));
  if (modified_ns > now_ns) told.kept_until_ns = std::max(told.kept_until_ns, modified_ns);
  note_changed(segment);
}

void Cache::note_use(const Lease& lease, std::optional<Position> restored) {
  if (lease.steps().empty()) return;
  const std::vector<policy::Restorable> restorable = lease.restorable();
  if (!restored && !restorable.empty()) restored = restorable.back().last;
  const auto leaves = restored ? lease.cover(*restored) : std::nullopt;
  MutexLock lock(mutex_);
  const std::int64_t now_ns = clock_.wall_ns();
  for (const LeasedStep& step : lease.steps()) use(step.segment, now_ns);
  // The leaf's file time carries recency over a restart; ancestors are at least as recent by structure.
  post_touch(lease.steps().back().segment);
  offer_again(lease.steps().back().segment);
  if (!leaves) return;
  for (const Lease::Cover& part : *leaves) {
    use(lease.points_[part.point].id, now_ns);
    keep_on_disk(lease.points_[part.point].id);
    post_touch(lease.points_[part.point].id);
    offer_again(lease.points_[part.point].id);
  }
}

void Cache::post_touch(SegmentId segment) {
  const Entry& used = entry(segment);
  if (used.disk != DiskState::kOnDisk) return;
  const std::int64_t time_ns = std::max(clock_.wall_ns(), used.kept_until_ns);
  writer_.post([this, name = header_of(segment).name, time_ns] {
    disk_->touch(name, time_ns);
    note_unsaved_header();
  });
}

format::SegmentHeader Cache::header_of(SegmentId segment) {
  const Entry& known = entry(segment);
  const index::SegmentInfo& info = index_.info(segment);
  format::SegmentHeader header;
  header.fingerprint = options_.fingerprint;
  const PrefixHash& end_hash = mutations().name_by_begin ? known.stored_begin_hash : info.end_hash;
  header.name = {known.stored_begin, info.range.end, known.stored_begin_hash, end_hash, info.kind};
  header.parts = {known.part};
  header.origin = info.origin;
  header.tenant = index_.tenant(segment);
  if (known.stored_begin == info.range.begin) {
    const TokenSpan tokens = index_.tokens(segment);
    header.tokens.assign(tokens.begin(), tokens.end());
  } else {  // the file overlaps its neighbours: its first ids are theirs
    const std::vector<TokenId> path = index_.path_tokens({segment, info.range.end});
    header.tokens.assign(path.begin() + known.stored_begin.value(), path.end());
  }
  return header;
}

// ---- storing ----

Track Cache::track(TokenSpan tokens, const Tenant& tenant) {
  Track track(*this, {kRootSegment, {}, tenant}, PrefixHasher(prefix_key(options_.fingerprint, tenant)));
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

void Cache::prepare_staging(std::size_t count, std::size_t size_bytes) {
  if (accepts()) pool_.prepare(count, size_bytes, &writer_);
}

store::StagingBuffer Cache::staging(std::size_t size_bytes) { return pool_.acquire(size_bytes); }

bool Cache::accepts() const {
  if (distrusted_) return false;
  return disk_ != nullptr || options_.ram_budget > ByteCount{0};
}

bool Cache::store(Track& track, TokenSpan tokens, store::StagingBuffer rows, std::size_t size_bytes,
                  format::Origin origin) {
  KVKEEP_ASSERT(!tokens.empty() && tokens.size() <= format::kMaxSegmentTokens, "a segment of no or too many tokens");
  const PrefixHash begin_hash = track.hasher_.current();
  PrefixHasher hasher = track.hasher_;
  hasher.append(tokens);
  {
    MutexLock lock(mutex_);
    const bool known = index_.advance(track.cursor_, tokens.first(1)).at != track.cursor_.at;
    if (known || dead_from(track.cursor_.segment) || !has_room(size_bytes)) {
      ++counters_.refused;
      return false;
    }
    const SegmentId added = index_.insert(track.cursor_, tokens, begin_hash, hasher.current(), origin);
    admit(added, {format::PartKind::kRows, begin_hash, std::move(rows).freeze(size_bytes)});
    pin(added);
    const SegmentId before = std::exchange(track.cursor_, {added, track.cursor_.at + tokens.size()}).segment;
    if (before != kRootSegment) --entry(before).pins;
  }
  track.hasher_ = hasher;
  return true;
}

void Cache::note_sampled(const Track& track, Position from, std::span<const TokenRange> sampled) {
  MutexLock lock(mutex_);
  for (const TokenRange run : sampled) {
    if (run.end > from) index_.mark_sampled(track.cursor_, {std::max(run.begin, from), run.end});
  }
}

bool Cache::has_room(std::size_t size_bytes) const {
  return accepts() && ram_used_ + ByteCount{size_bytes} <= ram_limit();
}

// What was just added to the index gets its bytes and is put into the write queue.
void Cache::admit(SegmentId added, Fresh fresh) {
  Entry& admitted = begin_life(added);
  admitted.part.kind = fresh.kind;
  admitted.part.size_bytes = fresh.payload->size();
  admitted.stored_begin = index_.info(added).range.begin;
  admitted.stored_begin_hash = fresh.begin_hash;
  admitted.last_used_ns = clock_.wall_ns();
  admitted.keeping = fresh.keeping;
  hold_payload(added, std::move(fresh.payload));
  admitted.serial = ++counters_.stored;
  if (fresh.keeping == Keeping::kOnDisk) return queue_or_hold_back(added);
  set_disk(added, DiskState::kUnwritten);
  writer_.post([this, added] { settle_payload(added); });
}

void Cache::queue_or_hold_back(SegmentId segment) {
  if (disk_ == nullptr || queued_bytes_ + entry(segment).charged <= write_queue_limit()) return queue_write(segment);
  hold_back(segment);
  ++counters_.held_back;
  if (std::has_single_bit(counters_.held_back))  // the first, and then ever fewer
    spdlog::info("kv cache: the disk is behind: {} segments so far waited in memory alone", counters_.held_back);
}

bool Cache::make_room(std::size_t size_bytes) {
  MutexLock lock(mutex_);
  // Memory only, and rarely: each time makes room for many segments.
  if (accepts() && !has_room(size_bytes)) make_ram_room(ram_limit(), ByteCount{size_bytes});
  const bool room = has_room(size_bytes);
  if (!room) ++counters_.refused;
  return room;
}

CacheStats Cache::stats() const {
  MutexLock lock(mutex_);
  CacheStats stats = counters_;
  stats.segments = index_.segment_count();
  stats.tokens = index_.token_count();
  stats.points = index_.attached_count();
  stats.index_memory =
      index_.memory() + ByteCount{entries_.capacity() * sizeof(Entry)} + disk_order_.memory() + ram_order_.memory();
  stats.staging_idle = pool_.idle_bytes();
  stats.fresh_buffers = pool_.fresh_count();
  stats.remembered = held_back_.size() + put_off_.size() + refused_.size();
  stats.ram_used = ram_used_;
  stats.ram_budget = options_.ram_budget;
  if (disk_ != nullptr) {
    stats.disk_used = disk_->used();
    stats.disk_budget = disk_->budget();
    stats.disk_stopped = disk_->stopped();
  }
  return stats;
}

}  // namespace kvkeep::cache
