// What rows cannot give: points, whole states and window rows, which hang in segments as leaves.

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "cache/cache.h"

namespace kvkeep::cache {

namespace {

// Of a point, or of window rows, on a path that goes on to `end` and where `awaited` is.
policy::Outlook outlook_of(TokenRange range, std::optional<Position> awaited, Position end) {
  using policy::Outlook;
  if (!awaited) return Outlook::kOpen;
  const bool window_there = range.begin < *awaited && *awaited <= range.end;
  if (range.end == *awaited || window_there) return Outlook::kAwaited;
  return range.end > *awaited && range.end < end ? Outlook::kPassed : Outlook::kOpen;
}

}  // namespace

// ---- looking up ----

// The leaves of a path that can be had, pinned, by ascending end of what the prompt shares of them.
std::vector<LeasedPoint> Cache::lease_points(const std::vector<LeasedStep>& steps) {
  std::vector<LeasedPoint> points;
  if (!options_.shape.needs_points()) return points;
  const format::PartKind kind = point_kind(options_.shape);
  for (const LeasedStep& step : steps) {
    for (const SegmentId leaf : index_.attached(step.segment)) {
      const Entry& known = entry(leaf);
      const TokenRange stored = index_.info(leaf).range;
      if (known.part.kind != kind || !available(known)) continue;
      // Window rows are shared up to where the prompt leaves the segment, a state as a whole or not at all.
      const bool shared =
          kind == format::PartKind::kWindowRows ? stored.begin < step.range.end : stored.end <= step.range.end;
      if (!shared) continue;
      pin(leaf);
      const TokenRange range{stored.begin, std::min(stored.end, step.range.end)};
      const Tier tier = in_ram(leaf) ? Tier::kRam : Tier::kDisk;
      const bool built = known.base != kRootSegment;
      const ByteCount bytes{built ? known.part.state_bytes : known.part.size_bytes};
      points.push_back({leaf, kind, range, stored, tier, bytes, built ? known.state : known.payload});
    }
  }
  return points;
}

bool Cache::has_point(const Track& track, format::PartKind kind, Keeping keeping) {
  MutexLock lock(mutex_);
  const SegmentId leaf = index_.attached(track.cursor_, kind);
  if (leaf == kRootSegment || !available(entry(leaf))) return false;
  if (keeping == Keeping::kOnDisk) keep_on_disk(leaf);
  return true;
}

// It was in RAM alone in case somebody wants it, and somebody does.
void Cache::keep_on_disk(SegmentId leaf) {
  Entry& known = entry(leaf);
  if (std::exchange(known.keeping, Keeping::kOnDisk) == Keeping::kOnDisk) return;
  if (known.disk != DiskState::kUnwritten || known.payload == nullptr || known.dead) return;
  ++leaves_unwritten_;  // takes_along() looks at it from now on
  queue_or_hold_back(leaf);
}

void Cache::forget_points(TokenSpan path, const std::vector<Position>& positions, const Tenant& tenant) {
  MutexLock lock(mutex_);
  std::vector<Position> deepest_first(positions);
  std::ranges::sort(deepest_first, std::greater());
  for (const Position at : deepest_first) {
    const index::Cursor place = index_.advance({kRootSegment, {}, tenant}, path.first(at.value()));
    const SegmentId leaf = place.at == at ? index_.attached(place, point_kind(options_.shape)) : kRootSegment;
    if (leaf == kRootSegment) continue;
    if (!others_need(leaf)) bury(leaf);
  }
  sweep_dead();
}

// Whether others restore less without this leaf, on whatever branch: states that are built on it, or windows that go on
// where its rows end.
bool Cache::others_need(SegmentId leaf) const {
  const index::SegmentInfo& own = index_.info(leaf);
  const auto lives = [&](SegmentId id) REQUIRES(mutex_) { return !entry(id).dead; };
  if (own.kind != format::PartKind::kWindowRows) return std::ranges::any_of(built_on(leaf), lives);
  if (window_over(own.parent, own.range.end)) return true;
  const auto goes_on = [&](SegmentId child) REQUIRES(mutex_) {
    const index::SegmentInfo& branch = index_.info(child);
    const Position from = branch.range.begin;
    return branch.kind == format::PartKind::kRows && from > own.range.begin && from <= own.range.end &&
           window_over(child, from);
  };
  return std::ranges::any_of(index_.children(own.parent), goes_on);
}

// Whether the segment has window rows of the token at `at`.
bool Cache::window_over(SegmentId segment, Position at) const {
  return std::ranges::any_of(index_.attached(segment), [&](SegmentId leaf) REQUIRES(mutex_) {
    const index::SegmentInfo& info = index_.info(leaf);
    const bool is_over = info.kind == format::PartKind::kWindowRows && info.range.begin <= at && at < info.range.end;
    return is_over && !entry(leaf).dead;
  });
}

void Cache::await_point(const Track& track, std::optional<Position> at) {
  MutexLock lock(mutex_);
  const format::PartKind kind = point_kind(options_.shape);
  for (SegmentId above = track.cursor_.segment; above != kRootSegment; above = index_.info(above).parent) {
    for (const SegmentId leaf : index_.attached(above)) {
      const index::SegmentInfo& info = index_.info(leaf);
      if (info.kind != kind || info.range.end > track.position()) continue;
      Entry& known = entry(leaf);
      const policy::Outlook before = known.outlook;
      known.outlook = outlook_of(info.range, at, track.position());
      // A window's other leaves count as awaited by the stop that they are part of.
      const bool is_part = at && info.range.begin < *at && info.range.end + options_.shape.window_tokens > *at;
      const bool used = is_part || known.outlook == policy::Outlook::kAwaited;
      if (used) known.last_used_ns = clock_.wall_ns();
      if (used || known.outlook != before) note_changed(leaf);
    }
  }
}

// From the track's end upwards, so that each segment counts up to where the path leaves it.
std::vector<TokenRange> Cache::missing_windows(const Track& track, Position from) const {
  std::vector<TokenRange> gaps;
  MutexLock lock(mutex_);
  for (index::Cursor at = track.cursor_; at.at > from;) {
    add_gaps(at, from, gaps);
    const index::SegmentInfo& above = index_.info(at.segment);
    at = {above.parent, above.range.begin};
  }
  std::ranges::reverse(gaps);
  return gaps;
}

// Of [from, at.at) what lies in at.segment and has no window rows, descending.
void Cache::add_gaps(index::Cursor at, Position from, std::vector<TokenRange>& gaps) const {
  const Position begin = std::max(from, index_.info(at.segment).range.begin);
  Position open = at.at;  // what lies before it is still to be looked at
  const std::vector<SegmentId> leaves = index_.attached(at.segment);
  for (auto leaf = leaves.rbegin(); leaf != leaves.rend() && open > begin; ++leaf) {
    const index::SegmentInfo& info = index_.info(*leaf);
    if (info.kind != format::PartKind::kWindowRows || !available(entry(*leaf)) || info.range.begin >= open) continue;
    if (info.range.end <= begin) break;
    if (info.range.end < open) gaps.push_back({info.range.end, open});
    open = info.range.begin;
  }
  if (open > begin) gaps.push_back({begin, open});
}

// ---- storing ----

bool Cache::make_room_for_point(std::size_t size_bytes) {
  {
    MutexLock lock(mutex_);
    largest_point_ = std::max(largest_point_, ByteCount{size_bytes});
    // What was not known beforehand. The buffer that the point takes now will serve the next ones, too.
    if (largest_point_ > options_.point_bytes) pool_.set_idle_limit(staging_limit(options_.ram_budget, largest_point_));
  }
  return make_room(size_bytes);
}

bool Cache::store_point(const Track& track, format::PartKind kind, store::StagingBuffer bytes, std::size_t size_bytes,
                        Keeping keeping) {
  const Position at = track.position();
  KVKEEP_ASSERT(at > Position{}, "the empty prefix has no state");
  KVKEEP_ASSERT(kind == format::PartKind::kPoint || kind == format::PartKind::kWhole, "a kind of point");
  const PrefixHash hash = track.hasher_.current();
  return attach(track.cursor_, {at, at}, hash, {kind, hash, std::move(bytes).freeze(size_bytes), keeping});
}

bool Cache::store_window(const Track& track, TokenRange range, store::StagingBuffer bytes, std::size_t size_bytes) {
  KVKEEP_ASSERT(range.begin < range.end && range.end <= track.position(), "window rows of what is stored");
  index::Cursor at;
  PrefixHash begin_hash;
  PrefixHash end_hash;
  FingerprintHash key;
  std::vector<TokenId> tokens;
  {
    MutexLock lock(mutex_);
    at = cursor_of(track, range);
    const index::SegmentInfo& within = index_.info(at.segment);
    begin_hash = within.begin_hash;
    end_hash = within.end_hash;
    if (within.range != range) tokens = index_.path_tokens(at);
    key = prefix_key(options_.fingerprint, index_.tenant(at.segment));
  }
  // Hashing a long prefix takes a moment that others should not wait for. The track holds the place.
  if (!tokens.empty()) {
    PrefixHasher hasher(key);
    hasher.append(TokenSpan(tokens).first(range.begin.value()));
    begin_hash = hasher.current();
    hasher.append(TokenSpan(tokens).subspan(range.begin.value()));
    end_hash = hasher.current();
  }
  return attach(at, range, end_hash,
                {format::PartKind::kWindowRows, begin_hash, std::move(bytes).freeze(size_bytes), Keeping::kOnDisk});
}

// Where a run ends that lies within one segment of the track's path.
index::Cursor Cache::cursor_of(const Track& track, TokenRange range) const {
  index::Cursor at = track.cursor_;
  while (index_.info(at.segment).range.begin >= range.end) {
    const index::SegmentInfo& above = index_.info(at.segment);
    at = {above.parent, above.range.begin};
  }
  KVKEEP_ASSERT(index_.info(at.segment).range.begin <= range.begin, "window rows within one segment");
  return {at.segment, range.end};
}

bool Cache::attach(index::Cursor at, TokenRange range, const PrefixHash& end_hash, Fresh fresh) {
  MutexLock lock(mutex_);
  const bool there = index_.attached(at, fresh.kind) != kRootSegment;
  if (there || dead_from(at.segment) || !has_room(fresh.payload->size())) {
    ++counters_.refused;
    return false;
  }
  const PrefixHash begin_hash = fresh.begin_hash;
  admit(index_.attach(at, fresh.kind, range.begin, begin_hash, end_hash), std::move(fresh));
  return true;
}

}  // namespace kvkeep::cache
