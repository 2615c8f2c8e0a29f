#include "cache/cache.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "cache/cache_parts.h"
#include "cache/catalog.h"
#include "cache/paths.h"

namespace kvkeep::cache {

namespace {

Error kept_by_another() {
  return unsupported("another server keeps the directory of the disk cache; ask that one, or use `kvkeep cache rm`");
}

}  // namespace

// ---- opening and closing ----

Cache::Cache(CacheOptions options, std::unique_ptr<store::DiskStore> disk, os::Clock& clock, os::Executor& writer,
             os::Executor& reader, std::vector<FurtherTier> further, SharedSetup shared)
    : parts_(std::make_unique<Parts>(options, std::move(disk), clock, writer, reader, std::move(further),
                                     std::move(shared))) {
  if (parts_->peer != nullptr) parts_->peer->recover();
}

Cache::~Cache() { parts_->finish(); }

// Not part of opening: a pinned prefix can be kept only once it is indexed, and must be kept before anything may leave.
void Cache::settle() {
  if (parts_->disk == nullptr) return;
  parts_->writer.post([this] {
    parts_->expiry.expire_foreign();
    parts_->expire_all();
    parts_->disk_room->fit();
  });
}

void Cache::tick() {
  Parts& parts = *parts_;
  if (parts.shared_tier != nullptr) parts.shared.store->tick();
  if ((parts.disk == nullptr && !parts.expiry.wanted()) || parts.ticking.exchange(true)) return;
  parts.writer.post([&parts] {
    if (parts.disk != nullptr) parts.share(store::Look::kWhenDue);
    (void)parts.expiry.next_portion();
    parts.ticking = false;
  });
}

void Cache::flush() {
  Parts& parts = *parts_;
  parts.write_back.drain();
  // A member learns once more which files the keeper removed, and writes those again that RAM has: else the end of a
  // conversation that went on meanwhile would lie below a hole.
  if (parts.disk != nullptr && !parts.disk->store().keeper()) {
    parts.writer.post([&parts] { parts.share(store::Look::kNow); });
    parts.write_back.drain();
  }
  parts.copies.drain();
  parts.reader.drain();
  if (parts.disk != nullptr) parts.disk->store().save_index();
}

void Cache::distrust(const std::string& why) {
  parts_->distrust.find(why);
  if (parts_->shared_tier != nullptr) parts_->shared.store->distrust();
}

bool Cache::distrusted() const { return bool{parts_->distrust}; }

ByteCount Cache::point_bytes() const { return parts_->options.point_bytes; }

// ---- looking up ----

index::TextMatch Cache::match_text(TokenSpan prompt, const index::TokenTexts& texts, const Tenant& tenant) const {
  if (distrusted()) return {};
  const SegmentTable& table = parts_->table;
  CacheLock lock(parts_->mutex);
  const auto usable = [&](SegmentId segment) REQUIRES(kCacheLock) { return table.entry(segment).available(); };
  return index::match_text(table.index(), prompt, texts, usable, tenant);
}

std::shared_ptr<Lease> Cache::lease(TokenSpan prompt, const Tenant& tenant) {
  Parts& parts = *parts_;
  CacheLock lock(parts.mutex);
  std::vector<LeasedStep> steps;
  if (!parts.distrust) steps = steps_of(parts.table, parts.ram, prompt, tenant);
  std::vector<LeasedPoint> points = points_of(parts.table, parts.ram, parts.chains, steps);
  const SegmentId deepest = steps.empty() ? kRootSegment : steps.back().segment;
  parts.table.pin(deepest);
  for (const LeasedPoint& point : points) parts.table.pin(point.id);
  name_media(parts.table, prompt, steps, points);
  return std::make_shared<Lease>(parts.forgetting, parts.options.shape, deepest, std::move(steps), std::move(points));
}

void Cache::note_use(const Lease& lease, std::optional<Position> restored) {
  if (lease.steps().empty()) return;
  parts_->report_uses(parts_->use(lease, restored));
}

StoredPrefix Cache::stored(TokenSpan prompt, const Tenant& tenant) {
  const std::shared_ptr<Lease> leased = lease(prompt, tenant);
  StoredPrefix found{.rows = leased->end(), .restorable = leased->end()};
  for (const LeasedStep& step : leased->steps()) {
    std::size_t& tokens = step.tier == Tier::kRam ? found.ram : step.tier == Tier::kDisk ? found.disk : found.shared;
    tokens += step.range.size();
  }
  if (!parts_->options.shape.needs_points()) return found;
  const std::vector<policy::Restorable> runs = leased->restorable();
  found.restorable = runs.empty() ? Position{} : std::min(runs.back().last, found.rows);
  return found;
}

void Cache::load(std::shared_ptr<Lease> lease, TokenRange range, std::function<void(LoadResult)> done,
                 std::optional<Position> point) {
  parts_->loader.load(std::move(lease), range, std::move(done), point);
}

void Cache::report_damaged(SegmentId segment, explain::LossCause cause) {
  parts_->forgetting.report_damaged(segment, cause);
}

Branch Cache::branch(TokenSpan prompt, std::size_t count, const Tenant& tenant) const {
  CacheLock lock(parts_->mutex);
  return branch_of(parts_->table, prompt, count, tenant);
}

std::optional<explain::LostState> Cache::lost_state(TokenSpan prompt, TokenRange unused, const Tenant& tenant) const {
  const FingerprintHash key = prefix_key(parts_->options.fingerprint, tenant);
  CacheLock lock(parts_->mutex);
  return parts_->forgetting.lost(prompt, unused, tenant, key);
}

std::optional<StoredPath> Cache::random_path(std::uint64_t random) const {
  if (distrusted()) return std::nullopt;
  CacheLock lock(parts_->mutex);
  return cache::random_path(parts_->table, parts_->ram, random);
}

// ---- the shared tier ----

bool Cache::can_seek() const { return parts_->seeking != nullptr && parts_->seeking->possible() && !distrusted(); }

std::optional<double> Cache::search_patience_ms(TokenSpan prompt, const Tenant& tenant) const {
  return parts_->seeking->patience_ms(prompt, tenant);
}

void Cache::seek(SeekOrder order, std::function<void(SeekResult)> done) {
  parts_->seeking->seek(std::move(order), std::move(done));
}

bool Cache::publishes() const { return parts_->publishing != nullptr; }

std::optional<share::ShareCounters> Cache::share_counters() const {
  if (parts_->shared_tier == nullptr) return std::nullopt;
  return parts_->shared.store->counters();
}

void Cache::note_prefill_rate(double tokens_per_s) {
  if (parts_->shared_tier != nullptr) parts_->shared_tier->note_prefill_rate(tokens_per_s);
}

// ---- tracks ----

Track Cache::track(TokenSpan tokens, const Tenant& tenant) {
  const FingerprintHash key = prefix_key(parts_->options.fingerprint, tenant);
  Track track(parts_->forgetting, {kRootSegment, {}, tenant}, PrefixHasher(key));
  follow(track, tokens);
  return track;
}

bool Cache::follow(Track& track, TokenSpan next) {
  SegmentTable& table = parts_->table;
  CacheLock lock(parts_->mutex);
  const index::Cursor from = track.cursor();
  index::Cursor reached = table.index().advance(from, next);
  const std::optional<Position> forgotten = parts_->forgetting.forgotten_from(reached.segment);
  if (forgotten) {
    if (*forgotten <= from.at) return false;
    reached = table.index().advance(from, next.first(*forgotten - from.at));
  }
  if (reached == from) return !forgotten;
  PrefixHasher hasher = track.hasher();
  hasher.append(next.first(reached.at - from.at));
  table.pin(reached.segment);
  table.unpin(track.move_to(reached, hasher));
  return !forgotten;
}

void Cache::note_sampled(const Track& track, Position from, std::span<const TokenRange> sampled) {
  CacheLock lock(parts_->mutex);
  for (const TokenRange run : sampled) {
    if (run.end > from) parts_->table.mark_sampled(track.cursor(), {std::max(run.begin, from), run.end});
  }
}

// Points are large: only the last one on the path is kept, and the one to which the next message returns.
void Cache::keep(const Track& track, std::int64_t keep_ns) {
  Parts& parts = *parts_;
  SegmentTable& table = parts.table;
  const StateShape& shape = parts.options.shape;
  CacheLock lock(parts.mutex);
  const std::int64_t until_ns = parts.clock.wall_ns() + std::clamp<std::int64_t>(keep_ns, 0, policy::kLongestKeepNs);
  std::optional<Position> last;
  bool told = false;  // by the time of a file: files above it cannot leave before it
  for (SegmentId above = track.cursor().segment; above != kRootSegment; above = table.info(above).parent) {
    table.keep_until(above, until_ns);
    if (!told && table.entry(above).on_disk()) {
      parts.touch(above);
      told = true;
    }
    const std::vector<SegmentId> leaves = table.index().leaves_of(above);
    for (auto leaf = leaves.rbegin(); leaf != leaves.rend(); ++leaf) {
      const index::SegmentInfo& info = table.info(*leaf);
      if (info.kind != point_kind(shape) || info.range.end > track.position()) continue;
      if (!last) last = info.range.end;
      const bool is_part = info.range.end == *last || info.range.end + shape.window_tokens > *last;
      if (!is_part && table.entry(*leaf).outlook != policy::Outlook::kAwaited) continue;
      table.keep_until(*leaf, until_ns);
      parts.touch(*leaf);
    }
  }
}

void Cache::await_point(const Track& track, std::optional<Position> at) {
  SegmentTable& table = parts_->table;
  const StateShape& shape = parts_->options.shape;
  CacheLock lock(parts_->mutex);
  for (SegmentId above = track.cursor().segment; above != kRootSegment; above = table.info(above).parent) {
    for (const SegmentId leaf : table.index().leaves_of(above)) {
      const TokenRange range = table.info(leaf).range;
      if (table.info(leaf).kind != point_kind(shape) || range.end > track.position()) continue;
      const policy::Outlook outlook = outlook_of(range, at, track.position());
      // The other leaves of a window count as awaited by the position to which they belong.
      const bool is_part = at && range.begin < *at && range.end + shape.window_tokens > *at;
      const bool used = is_part || outlook == policy::Outlook::kAwaited;
      table.set_outlook(leaf, outlook, used ? std::optional(parts_->clock.wall_ns()) : std::nullopt);
    }
  }
}

// ---- storing ----

void Cache::prepare_staging(std::size_t count, std::size_t size_bytes) {
  if (accepts()) parts_->pool.prepare(count, size_bytes, &parts_->writer);
}

store::StagingBuffer Cache::staging(std::size_t size_bytes) { return parts_->pool.acquire(size_bytes); }

bool Cache::accepts() const { return parts_->accepts(); }

bool Cache::make_room(std::size_t size_bytes) {
  if (accepts() && parts_->ram_room.make(size_bytes)) return true;
  CacheLock lock(parts_->mutex);
  ++parts_->refused;
  return false;
}

bool Cache::make_room_for_point(std::size_t size_bytes) {
  Parts& parts = *parts_;
  {
    CacheLock lock(parts.mutex);
    parts.ram_room.note_point(ByteCount{size_bytes});
    // Larger than was known beforehand: the buffer that this point takes will also serve the next ones.
    const ByteCount largest = parts.ram_room.largest_point();
    if (largest > parts.options.point_bytes) parts.pool.set_idle_limit(staging_limit(parts.ram.budget(), largest));
  }
  return make_room(size_bytes);
}

bool Cache::store(Track& track, TokenSpan tokens, store::StagingBuffer rows, std::size_t size_bytes,
                  format::Origin origin) {
  KVKEEP_ASSERT(!tokens.empty() && tokens.size() <= format::kMaxSegmentTokens, "a segment of no or too many tokens");
  Parts& parts = *parts_;
  const index::Cursor at = track.cursor();
  const PrefixHash begin_hash = track.hasher().current();
  PrefixHasher hasher = track.hasher();
  hasher.append(tokens);
  CacheLock lock(parts.mutex);
  const bool known = parts.table.index().advance(at, tokens.first(1)).at != at.at;
  if (known || parts.forgetting.forgotten_from(at.segment) || !parts.accepts() || !parts.ram_room.has(size_bytes)) {
    ++parts.refused;
    return false;
  }
  const Fresh fresh{size_bytes, parts.clock.wall_ns()};
  const SegmentId added = parts.table.insert(at, tokens, begin_hash, hasher.current(), origin, fresh);
  parts.admit(added, std::move(rows).freeze(size_bytes), Keeping::kOnDisk);
  parts.table.pin(added);
  parts.table.unpin(track.move_to({added, at.at + tokens.size()}, hasher));
  return true;
}

// ---- points and windows ----

bool Cache::store_point(const Track& track, format::PartKind kind, store::StagingBuffer bytes, std::size_t size_bytes,
                        Keeping keeping) {
  const Position at = track.position();
  KVKEEP_ASSERT(at > Position{}, "the empty prefix has no state");
  KVKEEP_ASSERT(kind == format::PartKind::kPoint || kind == format::PartKind::kWhole, "a kind of point");
  const PrefixHash hash = track.hasher().current();
  return parts_->add_leaf(track.cursor(), {at, at}, kind, hash, hash, std::move(bytes).freeze(size_bytes), keeping);
}

bool Cache::has_point(const Track& track, format::PartKind kind, Keeping keeping) {
  CacheLock lock(parts_->mutex);
  const SegmentId leaf = parts_->table.index().leaf(track.cursor(), kind);
  if (leaf == kRootSegment || !parts_->table.entry(leaf).available()) return false;
  if (keeping == Keeping::kOnDisk) parts_->write_back.keep_on_disk(leaf);
  return true;
}

void Cache::forget_points(TokenSpan path, const std::vector<Position>& positions, const Tenant& tenant) {
  const SegmentTable& table = parts_->table;
  CacheLock lock(parts_->mutex);
  std::vector<Position> deepest_first(positions);
  std::ranges::sort(deepest_first, std::greater());
  for (const Position at : deepest_first) {
    const index::Cursor place = table.index().advance({kRootSegment, {}, tenant}, path.first(at.value()));
    if (place.at != at) continue;
    const SegmentId leaf = table.index().leaf(place, point_kind(parts_->options.shape));
    if (leaf != kRootSegment && !others_need(table, leaf)) parts_->forgetting.forget(leaf, std::nullopt);
  }
  parts_->forgetting.sweep();
}

bool Cache::is_unwanted(const Track& track) const {
  CacheLock lock(parts_->mutex);
  return parts_->forgetting.is_unwanted(track.cursor().segment);
}

Result<Position> Cache::forget(TokenSpan path, const Tenant& tenant) {
  Parts& parts = *parts_;
  if (parts.disk != nullptr && !parts.disk->store().keeper()) return kept_by_another();
  CacheLock lock(parts.mutex);
  const index::Cursor end = parts.table.index().advance({kRootSegment, {}, tenant}, path);
  const std::optional<SegmentId> own = own_part(parts.table, end);
  if (!own) return end.at;
  const Position from = parts.table.info(*own).range.begin;
  parts.forgetting.forget(*own, explain::LossCause::kForgotten);
  parts.forgetting.sweep();
  return from;
}

std::vector<TokenRange> Cache::missing_windows(const Track& track, Position from) const {
  CacheLock lock(parts_->mutex);
  return window_gaps(parts_->table, track.cursor(), from);
}

bool Cache::store_window(const Track& track, TokenRange range, store::StagingBuffer bytes, std::size_t size_bytes) {
  KVKEEP_ASSERT(range.begin < range.end && range.end <= track.position(), "window rows of what is stored");
  const SegmentTable& table = parts_->table;
  index::Cursor at;
  index::SegmentInfo within;
  FingerprintHash key;
  std::vector<TokenId> tokens;
  {
    CacheLock lock(parts_->mutex);
    at = cursor_of(table, track.cursor(), range);
    within = table.info(at.segment);
    if (within.range != range) tokens = table.index().path_tokens(at);
    key = prefix_key(parts_->options.fingerprint, table.index().tenant(at.segment));
  }
  // Hashing a long prefix takes a moment, so it is done without the lock. The track holds the place.
  if (!tokens.empty()) {
    PrefixHasher hasher(key);
    hasher.append(TokenSpan(tokens).first(range.begin.value()));
    within.begin_hash = hasher.current();
    hasher.append(TokenSpan(tokens).subspan(range.begin.value()));
    within.end_hash = hasher.current();
  }
  return parts_->add_leaf(at, range, format::PartKind::kWindowRows, within.begin_hash, within.end_hash,
                          std::move(bytes).freeze(size_bytes), Keeping::kOnDisk);
}

// ---- for people ----

Listing Cache::list(SegmentId after, std::size_t most, const TenantScope& tenants) const {
  CacheLock lock(parts_->mutex);
  return list_prefixes(parts_->table, after, most, tenants);
}

std::vector<ListedPrefix> Cache::hottest(std::size_t most, const TenantScope& tenants) const {
  CacheLock lock(parts_->mutex);
  return hottest_prefixes(parts_->table, most, tenants);
}

StoredBytes Cache::stored_by(const Tenant& tenant) const {
  CacheLock lock(parts_->mutex);
  return parts_->table.sums().of(tenant);
}

Result<ListedPrefix> Cache::find(std::string_view digits, const TenantScope& tenants) const {
  CacheLock lock(parts_->mutex);
  return find_prefix(parts_->table, digits, tenants);
}

Tenant Cache::tenant_of(const ListedPrefix& prefix) const {
  const SegmentTable& table = parts_->table;
  CacheLock lock(parts_->mutex);
  for (const SegmentId segment : table.index().ending_with(prefix.hash)) return table.index().tenant(segment);
  return kNoTenant;
}

std::vector<TokenId> Cache::tokens_of(const ListedPrefix& prefix) const {
  const SegmentTable& table = parts_->table;
  CacheLock lock(parts_->mutex);
  for (const SegmentId segment : table.index().ending_with(prefix.hash)) {
    if (table.info(segment).kind == format::PartKind::kRows)
      return table.index().path_tokens({segment, prefix.range.end});
  }
  return {};
}

Result<Cleared> Cache::clear(const ClearScope& scope) {
  Parts& parts = *parts_;
  if (parts.disk != nullptr && !parts.disk->store().keeper()) return kept_by_another();
  CacheLock lock(parts.mutex);
  TRY_ASSIGN(const std::vector<SegmentId> beginnings, beginnings_to_clear(parts.table, scope, parts.clock.wall_ns()));
  Cleared cleared;
  for (const SegmentId beginning : beginnings) {
    count_cleared(parts.table, beginning, cleared);
    parts.forgetting.forget(beginning, explain::LossCause::kForgotten);
  }
  parts.forgetting.sweep();
  return cleared;
}

// ---- figures ----

CacheStats Cache::stats() const {
  const Parts& parts = *parts_;
  CacheLock lock(parts.mutex);
  CacheStats stats;
  parts.write_back.count(stats);
  stats.segments = parts.table.index().segment_count();
  stats.tokens = parts.table.index().token_count();
  stats.points = parts.table.index().leaf_count();
  stats.built = parts.chains.built();
  stats.built_saved = parts.chains.saved();
  stats.points_ram = parts.table.sums().points(kRamTier) + parts.ram.decoded_bytes();
  stats.points_disk = parts.table.sums().points(kDiskTier);
  stats.ram_used = parts.ram.used();
  stats.ram_budget = parts.ram.budget();
  stats.index_memory = parts.table.memory() + parts.ram_evictor.memory();
  stats.staging_idle = parts.pool.idle_bytes();
  stats.fresh_buffers = parts.pool.fresh_count();
  stats.stored = parts.stored;
  stats.refused = parts.refused;
  stats.distrusted = bool{parts.distrust};
  stats.damaged = parts.forgetting.damaged();
  stats.stored_bytes = parts.stored_bytes;
  stats.reuse = parts.reuse;
  stats.from_ram = parts.ram_evictor.evicted();
  stats.expired = parts.expiry.expired();
  if (parts.disk != nullptr) {
    stats.index_memory += parts.disk_evictor->memory();
    stats.disk_used = parts.disk->used();
    stats.disk_budget = parts.disk->budget();
    stats.from_disk = parts.disk_evictor->evicted();
    const store::DiskStore& store = parts.disk->store();
    stats.disk_stopped = store.stopped();
    stats.directory = {true, store.keeper(), store.shared(), store.lease_left()};
  }
  return stats;
}

}  // namespace kvkeep::cache
