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
constexpr std::uint64_t kDiskSlackShare = 64;
// Victims at once, where an order is kept: requests want the lock as well.
constexpr std::size_t kVictimsAtOnce = 128;

double mebibytes_of(ByteCount bytes) { return static_cast<double>(bytes.value()) / (1 << 20); }

}  // namespace

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
  if (!disk_->keeper() || mutations().keep_old_budget) return;
  // Others of this model stored as many: the next start would leave some out.
  if (disk_->has_most_files()) evict_from_disk(disk_slack());
  ByteCount over = over_disk_budget();
  if (over == ByteCount{} || evict_foreign(over, store::Kept::kSpare) >= over) return;
  over = over_disk_budget();
  if (over > ByteCount{}) evict_from_disk(over);
  over = over_disk_budget();
  if (over > ByteCount{}) evict_foreign(over, store::Kept::kTake);
}

// Extra room made on disk, so that eviction runs once for many segments.
ByteCount Cache::disk_slack() const { return ByteCount{disk_->budget().value() / kDiskSlackShare}; }

// Asked once: what a reader finds damaged leaves at any moment.
ByteCount Cache::over_disk_budget() const {
  const ByteCount used = disk_->used();
  return used > disk_->budget() ? used - disk_->budget() : ByteCount{};
}

// Frees about `needed` bytes of what lies in the directory and is not of this cache.
ByteCount Cache::evict_foreign(ByteCount needed, store::Kept kept) {
  const ByteCount freed = disk_->remove_foreign(needed, kept);
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
  if (options_.disk_points_share >= 100 || !options_.shape.needs_points()) return true;
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

policy::EvictCandidate Cache::disk_candidate(SegmentId segment) const {
  policy::EvictCandidate candidate = candidate_of(segment);
  candidate.bytes = file_size(segment);
  if (mutations().evict_parent_first || (mutations().points_outlive_rows && is_leaf(entry(segment))))
    candidate.parent = candidate.base = kRootSegment;
  return candidate;
}

// Some of those that must leave to free `needed` bytes, or all. None: nothing may.
std::vector<SegmentId> Cache::disk_victims(ByteCount needed, bool points_only) {
  const policy::EvictOrder::Request request{needed, kVictimsAtOnce, clock_.wall_ns(),
                                            ByteCount{disk_->budget().value() / kKeptShare}, points_only};
  MutexLock lock(mutex_);
  std::optional<std::uint64_t>& nothing_left = nothing_left_[points_only ? 1 : 0];
  if (nothing_left == changes_) return {};
  const auto victims = disk_order_.choose(request, [this](SegmentId segment) REQUIRES(mutex_) {
    return stays_on_disk(segment) && !mutations().evict_in_use;
  });
  nothing_left = victims.empty() ? std::optional(changes_) : std::nullopt;
  return victims;
}

// Frees about `needed` bytes of the disk tier. False: nothing could leave.
bool Cache::evict_from_disk(ByteCount needed, bool points_only) {
  std::size_t count = 0;
  std::size_t in_vain = 0;  // used since they were chosen
  const ByteCount used_before = disk_->used();
  ByteCount freed;
  for (bool goes_on = true; goes_on && freed < needed && in_vain < kVictimsAtOnce;) {
    const std::vector<SegmentId> victims = disk_victims(needed - freed, points_only);
    goes_on = !victims.empty();
    for (const SegmentId victim : victims) {
      const Result<ByteCount> removed = remove_from_disk(victim);
      goes_on = removed.ok();
      if (!goes_on) break;  // a disk that refuses one will refuse others
      freed += *removed;
      ++(*removed > ByteCount{} ? count : in_vain);
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

// It, or anything below it, in whatever tier, is in use or waits for the writer.
bool Cache::stays_on_disk(SegmentId segment) const {
  return any_in_subtree(segment, needs_its_path) || completes_unwritten_window(segment);
}

// Room for the last window of several that count together is not made by the first one.
bool Cache::completes_unwritten_window(SegmentId leaf) const {
  const index::SegmentInfo& own = index_.info(leaf);
  if (own.kind != format::PartKind::kWindowRows) return false;
  const Position reach = own.range.end + options_.shape.window_tokens;
  const auto needs_it = [&](SegmentId other) REQUIRES(mutex_) {
    const Entry& known = entry(other);
    const TokenRange range = index_.info(other).range;
    const bool unwritten = needs_its_path(known) && known.disk != DiskState::kOnDisk;
    return unwritten && index_.info(other).kind == own.kind && range.end < reach && range.end > own.range.begin;
  };
  std::vector<SegmentId> pending{own.parent};
  while (!pending.empty()) {
    const SegmentId within = pending.back();
    pending.pop_back();
    if (std::ranges::any_of(index_.attached(within), needs_it)) return true;
    for (const SegmentId child : index_.children(within)) {
      const index::SegmentInfo& info = index_.info(child);
      if (info.kind == format::PartKind::kRows && info.range.begin < reach) pending.push_back(child);
    }
  }
  return false;
}

bool Cache::may_leave_disk(SegmentId segment) {
  const Entry& known = entry(segment);
  if (!known.live || known.disk != DiskState::kOnDisk) return false;
  if (stays_on_disk(segment) && !mutations().evict_in_use) return false;
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
  const policy::EvictOrder::Request request{needed, kVictimsAtOnce, clock_.wall_ns(),
                                            ByteCount{options_.ram_budget.value() / kKeptShare}};
  return ram_order_.choose(request, [this](SegmentId segment) REQUIRES(mutex_) {
    const Entry& known = entry(segment);
    if (stays_in_ram(known)) return true;
    // Chosen one at a time: what hangs below it has not left before it.
    return options_.shape.needs_points() && known.disk != DiskState::kOnDisk && !nothing_below(segment);
  });
}

bool Cache::nothing_below(SegmentId segment) const {
  return index_.info(segment).children == 0 && built_on(segment).empty();
}

void Cache::forget_in_ram(SegmentId victim) {
  ++counters_.ram_evicted;
  if (entry(victim).disk == DiskState::kOnDisk) {
    drop_payload(victim);
  } else if (nothing_below(victim)) {
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
  std::size_t count = 0;
  for (ByteCount before = ram_used_ + ByteCount{1}; ram_used_ > target && ram_used_ < before;) {
    before = ram_used_;
    const std::vector<SegmentId> victims = ram_victims(ram_used_ - target);
    for (const SegmentId victim : victims) forget_in_ram(victim);
    count += victims.size();
    if (ram_used_ <= most && count >= kVictimsAtOnce) break;
  }
  const auto half_life_ns = ram_turnover_.note_left(used_before - ram_used_, limit, clock_.wall_ns());
  if (half_life_ns) ram_order_.set_half_life(*half_life_ns);
}

// ---- the order ----

// Told of all that decides who leaves first, and of what is where.
void Cache::note_changed(SegmentId segment) {
  ++changes_;
  const Entry& known = entry(segment);
  const bool needs_points = options_.shape.needs_points();
  const bool on_disk = known.live && known.disk == DiskState::kOnDisk;
  const bool in_ram = known.live && known.payload != nullptr;
  // Where candidates need each other a tier's order knows what others have.
  if (on_disk || (known.live && needs_points)) {
    policy::EvictCandidate candidate = disk_candidate(segment);
    candidate.absent = !on_disk;
    disk_order_.put(candidate);
  } else {
    disk_order_.erase(segment);
  }
  if (in_ram || (known.live && needs_points)) {
    policy::EvictCandidate candidate = ram_candidate(segment);
    candidate.absent = !in_ram;
    ram_order_.put(candidate);
  } else {
    ram_order_.erase(segment);
  }
}

}  // namespace kvkeep::cache
