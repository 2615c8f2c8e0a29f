// What leaves RAM and disk when they are over their budgets: the cache says what is there and what may not leave,
// policy chooses, and what was chosen goes.

#include <spdlog/spdlog.h>

#include <algorithm>

#include "cache/cache.h"
#include "cache/mutations.h"

namespace kvkeep::cache {

namespace {

// What is kept until a time leaves last only as far as others have as much of a tier.
constexpr std::uint64_t kKeptShare = 2;
// RAM is trimmed below its budget by this share, so that not every new segment pays for a decision.
constexpr std::uint64_t kTrimShare = 16;
// Points leave until they are below their share of the disk by this share, so that not every new one pays.
constexpr std::uint64_t kPointsSlackShare = 64;
// Victims at once, where an order is kept: requests want the lock as well.
constexpr std::size_t kVictimsAtOnce = 128;

double mebibytes_of(ByteCount bytes) { return static_cast<double>(bytes.value()) / (1 << 20); }

}  // namespace

policy::EvictView Cache::empty_view() const {
  policy::EvictView view;
  view.now_ns = clock_.wall_ns();
  view.needs_points = options_.shape.needs_points();
  view.window_tokens = options_.shape.window_tokens;
  view.score = options_.score;
  return view;
}

// What both tiers say of a segment or leaf.
policy::EvictCandidate Cache::candidate_of(SegmentId segment) const {
  const Entry& known = entry(segment);
  const index::SegmentInfo& info = index_.info(segment);
  policy::EvictCandidate candidate;
  candidate.segment = segment;
  candidate.parent = candidate.above = info.parent;
  candidate.tokens = static_cast<std::uint32_t>(info.range.size());
  candidate.begin = info.range.begin;
  candidate.last_used_ns = known.last_used_ns;
  candidate.hits = known.hits;
  candidate.kept_until_ns = known.kept_until_ns;
  candidate.base = known.base;
  candidate.outlook = known.outlook;
  if (!is_leaf(known)) return candidate;
  if (!options_.shape.needs_points() || info.kind != point_kind(options_.shape)) {
    candidate.tokens = 0;  // nothing is restored from it
  } else {
    const bool window = info.kind == format::PartKind::kWindowRows;
    candidate.kind = window ? policy::CandidateKind::kWindow : policy::CandidateKind::kPoint;
  }
  return candidate;
}

// ---- what stays ----

void Cache::keep(const Track& track, std::int64_t keep_ns) {
  MutexLock lock(mutex_);
  const std::int64_t until_ns = clock_.wall_ns() + std::clamp<std::int64_t>(keep_ns, 0, policy::kLongestKeepNs);
  const auto keep_one = [&](SegmentId segment) REQUIRES(mutex_) {
    Entry& kept = entry(segment);
    kept.kept_until_ns = std::max(kept.kept_until_ns, until_ns);
    note_changed(segment);
  };
  // Points are large: of those on the path, the last one, and the one that the next message returns to.
  const format::PartKind kind = point_kind(options_.shape);
  std::optional<Position> last;
  bool told = false;  // by the time of a file: those above it cannot leave before it
  for (SegmentId above = track.cursor_.segment; above != kRootSegment; above = index_.info(above).parent) {
    keep_one(above);
    if (!told && entry(above).disk == DiskState::kOnDisk) {
      post_touch(above);
      told = true;
    }
    const std::vector<SegmentId> leaves = index_.attached(above);
    for (auto leaf = leaves.rbegin(); leaf != leaves.rend(); ++leaf) {
      const index::SegmentInfo& info = index_.info(*leaf);
      if (info.kind != kind || info.range.end > track.position()) continue;
      if (!last) last = info.range.end;
      const bool is_part = info.range.end == *last || info.range.end + options_.shape.window_tokens > *last;
      if (!is_part && entry(*leaf).outlook != policy::Outlook::kAwaited) continue;
      keep_one(*leaf);
      post_touch(*leaf);
    }
  }
}

// ---- disk ----

// A budget made smaller holds from the start, not only when something is stored.
void Cache::fit_disk_budget() {
  (void)make_points_room({});
  if (!disk_->keeper() || disk_->used() <= disk_->budget() || mutations().keep_old_budget) return;
  const ByteCount over = disk_->used() - disk_->budget();
  if (evict_foreign(over) < over) evict_from_disk(disk_->used() - disk_->budget());
}

// Frees about `needed` bytes of what lies in the directory and is not of this cache.
ByteCount Cache::evict_foreign(ByteCount needed) {
  const ByteCount freed = disk_->remove_foreign(needed);
  if (freed > ByteCount{}) {
    spdlog::info("kv cache evicted {:.1f} MiB of other models or settings from disk used={:.1f} MiB budget={:.1f} MiB",
                 mebibytes_of(freed), mebibytes_of(disk_->used()), mebibytes_of(disk_->budget()));
  }
  return freed;
}

ByteCount Cache::points_room() const {
  return ByteCount{disk_->budget().value() / 100 * std::min(options_.disk_points_share, 100U)};
}

// Points, whole states and windows have a share of the disk: beyond it they leave, whatever rows are worth. False: with
// such a file they would have more.
bool Cache::make_points_room(ByteCount file) {
  if (options_.disk_points_share >= 100 || keeps_order()) return true;
  const ByteCount room = points_room();
  if (file > room) return false;
  const auto used = [this] {
    MutexLock lock(mutex_);
    return counters_.points_disk;
  };
  if (const ByteCount with = used() + file; with > room && disk_->keeper())
    evict_from_disk(with - room + ByteCount{room.value() / kPointsSlackShare}, true);
  return used() + file <= room;
}

policy::EvictView Cache::disk_view(bool points_only) {
  policy::EvictView view = empty_view();
  view.points_only = points_only;
  view.kept_room = ByteCount{disk_->budget().value() / kKeptShare};
  MutexLock lock(mutex_);
  view.half_life_ns = disk_turnover_.half_life_ns();
  const std::vector<bool> needed_there = needed_on_disk();
  for (std::uint32_t id = 1; id < entries_.size(); ++id) {
    const Entry& known = entries_[id];
    const bool there = known.disk == DiskState::kOnDisk;
    if (!known.live || !(there || view.needs_points)) continue;
    policy::EvictCandidate candidate = disk_candidate(SegmentId{id});
    candidate.pinned = needed_there[id] && !mutations().evict_in_use;
    candidate.copy = known.payload != nullptr;
    candidate.absent = !there;
    view.candidates.push_back(candidate);
  }
  return view;
}

policy::EvictCandidate Cache::disk_candidate(SegmentId segment) const {
  policy::EvictCandidate candidate = candidate_of(segment);
  candidate.bytes = file_size(segment);
  if (mutations().evict_parent_first || (mutations().points_outlive_rows && is_leaf(entry(segment))))
    candidate.parent = candidate.base = kRootSegment;
  return candidate;
}

// Some of those that must leave to free `needed` bytes, or all. None: nothing may.
std::vector<SegmentId> Cache::disk_victims(ByteCount needed, bool points_only) {
  if (!keeps_order()) return policy::choose_victims(disk_view(points_only), needed);
  const policy::EvictOrder::Request request{needed, kVictimsAtOnce, clock_.wall_ns(),
                                            ByteCount{disk_->budget().value() / kKeptShare}};
  MutexLock lock(mutex_);
  return disk_order_.choose(request, [this](SegmentId segment) REQUIRES(mutex_) {
    return any_in_subtree(segment, needs_its_path) && !mutations().evict_in_use;
  });
}

// Frees about `needed` bytes of the disk tier. False: nothing could leave.
bool Cache::evict_from_disk(ByteCount needed, bool points_only) {
  // Decided without the lock where that takes long, for requests want it too; each victim is looked at again.
  std::size_t count = 0;
  const ByteCount used_before = disk_->used();
  ByteCount freed;
  for (bool goes_on = true; goes_on && freed < needed;) {
    goes_on = false;
    for (const SegmentId victim : disk_victims(needed - freed, points_only)) {
      const Result<ByteCount> removed = remove_from_disk(victim);
      if (!removed) {
        goes_on = false;  // a disk that refuses one will refuse others
        break;
      }
      if (*removed == ByteCount{}) continue;
      freed += *removed;
      ++count;
      goes_on = keeps_order();  // else all were chosen at once
    }
  }
  {
    MutexLock lock(mutex_);
    const auto half_life_ns = disk_turnover_.note_left(freed, disk_->budget(), clock_.wall_ns());
    if (half_life_ns) disk_order_.set_half_life(*half_life_ns);
  }
  if (count > 0) {
    spdlog::info("kv cache evicted segments={} from=disk used={:.1f} MiB before={:.1f} MiB budget={:.1f} MiB", count,
                 mebibytes_of(disk_->used()), mebibytes_of(used_before), mebibytes_of(disk_->budget()));
  }
  return count > 0;
}

// What that freed: nothing if it was used meanwhile, and with it its ancestors, which are refused as well.
Result<ByteCount> Cache::remove_from_disk(SegmentId victim) {
  format::SegmentName name;
  ByteCount size;
  {
    MutexLock lock(mutex_);
    if (!may_leave_disk(victim)) return ByteCount{};
    set_disk(victim, DiskState::kRemoving);
    name = header_of(victim).name;
    size = file_size(victim);
  }
  const Status removed = disk_->remove(name);
  MutexLock lock(mutex_);
  set_disk(victim, removed ? DiskState::kNone : DiskState::kOnDisk);
  if (!removed) return removed.error();
  ++counters_.disk_evicted;
  if (entry(victim).payload == nullptr) {  // gone from every tier: what continues it in RAM alone is out of reach too
    bury(victim);
    sweep_dead();
  }
  return size;
}

// By segment: true if it, or anything below it, in whatever tier, is in use or waits for the writer.
std::vector<bool> Cache::needed_on_disk() {
  std::vector<bool> needed(entries_.size());
  for (std::uint32_t id = 1; id < entries_.size(); ++id) {
    const Entry& known = entries_[id];
    if (!known.live || !(in_use(known) || known.disk == DiskState::kWaiting)) continue;
    for (SegmentId above{id}; above != kRootSegment && !needed[above.value()]; above = index_.info(above).parent) {
      needed[above.value()] = true;
    }
    for (SegmentId base = known.base; base != kRootSegment; base = entry(base).base) needed[base.value()] = true;
    if (known.part.kind == format::PartKind::kWindowRows && known.disk != DiskState::kOnDisk)
      need_rest_of_window(SegmentId{id}, needed);
  }
  return needed;
}

// The windows that one which is not written yet completes: room for the last piece is not made by the first one.
void Cache::need_rest_of_window(SegmentId window, std::vector<bool>& needed) {
  const index::SegmentInfo& last = index_.info(window);
  const Position begin{last.range.end.value() - std::min(last.range.end.value(), options_.shape.window_tokens)};
  for (SegmentId within = last.parent; within != kRootSegment; within = index_.info(within).parent) {
    for (const SegmentId leaf : index_.attached(within)) {
      const TokenRange range = index_.info(leaf).range;
      if (range.end > begin && range.begin < last.range.end) needed[leaf.value()] = true;
    }
    if (index_.info(within).range.begin <= begin) return;
  }
}

bool Cache::may_leave_disk(SegmentId segment) {
  const Entry& known = entry(segment);
  if (!known.live || known.disk != DiskState::kOnDisk) return false;
  if (any_in_subtree(segment, needs_its_path) && !mutations().evict_in_use) return false;
  if (mutations().evict_parent_first) return true;
  const auto there = [&](SegmentId below) REQUIRES(mutex_) {
    const bool overlooked = mutations().points_outlive_rows && is_leaf(entry(below));
    return entry(below).disk == DiskState::kOnDisk && !overlooked;
  };
  return std::ranges::none_of(index_.children(segment), there) && std::ranges::none_of(built_on(segment), there);
}

// ---- RAM ----

void Cache::trim_ram() {
  MutexLock lock(mutex_);
  if (ram_used_ > options_.ram_budget) make_ram_room(options_.ram_budget, ByteCount{});
}

policy::EvictView Cache::ram_view() {
  policy::EvictView view = empty_view();
  view.kept_room = ByteCount{options_.ram_budget.value() / kKeptShare};
  view.half_life_ns = ram_turnover_.half_life_ns();
  for (std::uint32_t id = 1; id < entries_.size(); ++id) {
    const Entry& known = entries_[id];
    const bool there = known.payload != nullptr;
    if (!known.live || !(there || view.needs_points)) continue;
    policy::EvictCandidate candidate = ram_candidate(SegmentId{id});
    candidate.pinned = stays_in_ram(known);
    candidate.absent = !there;
    view.candidates.push_back(candidate);
  }
  return view;
}

// A copy on disk may leave RAM in any order; without one, leaving means forgetting, leaves first.
policy::EvictCandidate Cache::ram_candidate(SegmentId segment) const {
  const Entry& known = entry(segment);
  policy::EvictCandidate candidate = candidate_of(segment);
  candidate.copy = known.disk == DiskState::kOnDisk || lost_in_ram(known);
  if (candidate.copy) {
    candidate.parent = candidate.base = kRootSegment;
    candidate.kept_until_ns = 0;
  }
  candidate.bytes = known.payload != nullptr ? known.charged : ByteCount{known.part.size_bytes};
  return candidate;
}

bool Cache::lost_in_ram(const Entry& entry) {
  return mutations().drop_before_written && entry.disk == DiskState::kWaiting && entry.pins == 0;
}

bool Cache::stays_in_ram(const Entry& entry) {
  if (entry.disk == DiskState::kOnDisk || lost_in_ram(entry)) return false;
  return in_use(entry) || entry.disk == DiskState::kWaiting;
}

std::vector<SegmentId> Cache::ram_victims(ByteCount needed) {
  if (!keeps_order()) return policy::choose_victims(ram_view(), needed);
  const policy::EvictOrder::Request request{needed, kVictimsAtOnce, clock_.wall_ns(),
                                            ByteCount{options_.ram_budget.value() / kKeptShare}};
  return ram_order_.choose(request,
                           [this](SegmentId segment) REQUIRES(mutex_) { return stays_in_ram(entry(segment)); });
}

void Cache::forget_in_ram(SegmentId victim) {
  ++counters_.ram_evicted;
  if (entry(victim).disk == DiskState::kOnDisk) {
    drop_payload(victim);
  } else if (index_.info(victim).children == 0 && built_on(victim).empty()) {
    erase(victim);
  }
}

// Drops payloads until `room` is free, and some beyond it for what comes next, up to a share of `limit`; or nothing may
// leave.
void Cache::make_ram_room(ByteCount limit, ByteCount room) {
  const ByteCount kept_free{std::min(limit.value(), std::max(room.value(), limit.value() / kTrimShare))};
  const ByteCount target = limit - kept_free;
  const ByteCount most = limit - std::min(limit, room);
  drop_states(target);
  const ByteCount used_before = ram_used_;
  for (ByteCount before = ram_used_ + ByteCount{1}; ram_used_ > target && ram_used_ < before;) {
    before = ram_used_;
    for (const SegmentId victim : ram_victims(ram_used_ - target)) forget_in_ram(victim);
    if (!keeps_order() || ram_used_ <= most) break;
  }
  const auto half_life_ns = ram_turnover_.note_left(used_before - ram_used_, limit, clock_.wall_ns());
  if (half_life_ns) ram_order_.set_half_life(*half_life_ns);
}

// ---- the order ----

// Told of all that decides who leaves first, and of what is where.
void Cache::note_changed(SegmentId segment) {
  if (!keeps_order()) return;
  const Entry& known = entry(segment);
  if (known.live && known.disk == DiskState::kOnDisk) {
    disk_order_.put(disk_candidate(segment));
  } else {
    disk_order_.erase(segment);
  }
  if (known.live && known.payload != nullptr) {
    ram_order_.put(ram_candidate(segment));
  } else {
    ram_order_.erase(segment);
  }
}

}  // namespace kvkeep::cache
