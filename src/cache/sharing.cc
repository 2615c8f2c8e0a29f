// What other servers on the same directory do, as the cache sees it: what they stored is known here as well, what they
// removed is forgotten, and the one that keeps the budget makes room for all. Runs on the writer executor.

#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "cache/cache.h"

namespace kvkeep::cache {

void Cache::tick() {
  if ((disk_ == nullptr && options_.time_to_live_ns == 0) || ticking_.exchange(true)) return;
  writer_.post([this] {
    if (disk_ != nullptr) share();
    (void)expire_portion();
    ticking_ = false;
  });
}

void Cache::share(store::Look look) {
  note_distrust();
  heed_distrust();
  const bool kept = disk_->keeper();
  store::DiskTick tick = disk_->tick(look);
  if (!kept && disk_->keeper()) spdlog::info("kv disk: this server keeps the budget of the directory now");
  if (!tick.gone.empty()) forget_gone(tick.gone);
  if (!tick.used.empty()) note_used_by_others(tick.used);
  if (!tick.found.empty() || (tick.looked && has_orphans())) adopt(std::move(tick.found), tick.looked);
  if (tick.shortage > ByteCount{}) {
    make_disk_room(tick.shortage);
    (void)disk_->grant();
  }
  expire_foreign();
  fit_disk_budget();
  if (tick.more_room) write_refused();
  try_stopped_disk();
  offer_put_off();
}

bool Cache::has_orphans() const {
  MutexLock lock(mutex_);
  return !orphans_.empty();
}

// ---- what others stored ----

// What hangs below nothing yet waits for the next look: a listing beside writes may show a segment and not what it
// continues, which was there before it and which the next listing shows.
void Cache::adopt(std::vector<store::StoredSegment> found, bool looked) {
  MutexLock lock(mutex_);
  const std::size_t fresh = found.size();
  if (looked) std::ranges::move(std::exchange(orphans_, {}), std::back_inserter(found));
  std::vector<index::NamedSegment> named;
  named.reserve(found.size());
  for (const store::StoredSegment& segment : found) {
    const format::SegmentName& name = segment.header.name;
    named.push_back({{name.begin, name.end},
                     name.begin_hash,
                     name.end_hash,
                     segment.header.tokens,
                     name.kind,
                     segment.header.origin,
                     segment.header.tenant});
  }
  const std::vector<index::Placement> placements = index::rebuild(index_, options_.fingerprint, named);
  // All that found a place live before what found none is compared with them: it may end where a later one does.
  std::vector<std::size_t> left_over;
  std::size_t removed = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!place(found[i], placements[i])) left_over.push_back(i);
  }
  for (const std::size_t i : left_over) {
    const bool orphan = placements[i].outcome == index::Placement::Outcome::kOrphan;
    const bool shared = disk_->shared();
    removed += orphan && !shared ? 1 : 0;
    if (shared && orphan && i < fresh) {
      orphans_.push_back(std::move(found[i]));
    } else if (!note_written_by_other(found[i].header)) {
      // Alone: what hangs below nothing (its parent or its base was lost) cannot be restored, so its bytes come back.
      writer_.post([this, shared, name = found[i].header.name] {
        shared ? disk_->disown(name) : (void)disk_->remove(name).ok();
      });
    }
  }
  if (removed > 0) {
    spdlog::warn("kv disk: removed {} orphaned segment{}: their parent is damaged or was deleted", removed,
                 removed == 1 ? "" : "s");
  }
  sweep_dead();
}

// False: it cannot be restored, or is known already.
bool Cache::place(const store::StoredSegment& found, const index::Placement& placement) {
  const format::SegmentHeader& header = found.header;
  const bool placed = placement.outcome == index::Placement::Outcome::kPlaced;
  const bool readable = header.parts.size() == 1 && header.parts.front().kind == header.name.kind;
  const auto base = placed && readable ? recovered_base(placement.segment, header.parts.front().base) : std::nullopt;
  if (!base) {
    if (placed) bury(placement.segment);
    return false;
  }
  Entry& added = begin_life(placement.segment);
  added.part = header.parts.front();
  added.stored_begin = header.name.begin;
  added.stored_begin_hash = header.name.begin_hash;
  note_file_time(placement.segment, found.modified_ns);
  set_base(placement.segment, *base);
  set_disk(placement.segment, DiskState::kOnDisk);
  return true;
}

// Of what has an entry: while files are adopted the index knows some that have none yet.
std::optional<SegmentId> Cache::named(const format::SegmentName& name) const {
  for (const SegmentId segment : index_.ending_with(name.end_hash)) {
    if (segment.value() >= entries_.size() || !entry(segment).live) continue;
    const index::SegmentInfo& info = index_.info(segment);
    const Entry& held = entry(segment);
    const bool same = held.stored_begin == name.begin && held.stored_begin_hash == name.begin_hash;
    if (same && info.range.end == name.end && info.kind == name.kind) return segment;
  }
  return std::nullopt;
}

// The very segment that is in RAM here and waits for room: it need not be written any more.
bool Cache::note_written_by_other(const format::SegmentHeader& header) {
  const auto same = named(header.name);
  if (!same || header.parts.size() != 1) return false;
  Entry& held = entry(*same);
  const format::Part& part = header.parts.front();
  const bool waits = held.disk == DiskState::kWaiting || held.disk == DiskState::kUnwritten;
  if (!waits || held.dead || held.part.built() || part.built() || held.part.size_bytes != part.size_bytes) return false;
  set_disk(*same, DiskState::kOnDisk);
  return true;
}

// ---- what others used ----

// A use changes the time of the deepest file; what leads there was used with it.
void Cache::note_used_by_others(const std::vector<store::UsedSegment>& used) {
  MutexLock lock(mutex_);
  const std::int64_t now_ns = clock_.wall_ns();
  for (const store::UsedSegment& file : used) {
    const auto segment = named(file.name);
    if (!segment) continue;
    const std::int64_t used_ns = std::min(file.modified_ns, now_ns);
    for (SegmentId above = index_.info(*segment).parent; above != kRootSegment && entry(above).last_used_ns < used_ns;
         above = index_.info(above).parent) {
      use(above, used_ns);
    }
    if (entry(*segment).last_used_ns < used_ns) use(*segment, used_ns);
    note_file_time(*segment, file.modified_ns);
  }
}

// ---- what others removed ----

// What is on disk below it hangs below nothing now: a conversation may have gone on before this server heard of it. If
// RAM has what is missing, it is written again.
void Cache::forget_gone(const std::vector<format::SegmentName>& gone) {
  std::vector<SegmentId> forgotten;
  MutexLock lock(mutex_);
  for (const format::SegmentName& name : gone) {
    const auto segment = named(name);
    if (!segment || entry(*segment).disk != DiskState::kOnDisk) continue;
    forget_file(*segment);
    forgotten.push_back(*segment);
  }
  for (const SegmentId segment : forgotten) {
    if (entry(segment).disk != DiskState::kUnwritten || entry(segment).dead) continue;
    std::vector<SegmentId> below;
    append_below(below, segment);
    bool continued = false;
    for (const SegmentId each : below) continued = continued || entry(each).disk == DiskState::kOnDisk;
    if (!continued) continue;
    holes_.insert(segment);
    queue_write(segment);
  }
  sweep_dead();
}

// RAM may still have it. Otherwise it is gone from every tier, and what continues it is out of reach. A file that has
// its name by now is not ours to remove.
void Cache::forget_file(SegmentId segment) {
  // Rows of no bytes are in RAM as long as their ids are known.
  if (entry(segment).part.size_bytes == 0 && entry(segment).payload == nullptr)
    hold_payload(segment, store::PayloadBuffer::allocate(0).freeze());
  const bool in_ram = entry(segment).payload != nullptr;
  set_disk(segment, in_ram ? DiskState::kUnwritten : DiskState::kNone);
  if (!in_ram) bury(segment);
}

// ---- room ----

// Frees about `needed` bytes of the directory. False: nothing could leave. State of other models and settings goes
// first while it holds more than half: who changes between two models keeps something of each. What is pinned or kept
// of it leaves last as well, as far as it is not more than half.
bool Cache::make_disk_room(ByteCount needed) {
  const auto foreign_prevails = [this] { return disk_->foreign_bytes().value() > disk_->budget().value() / 2; };
  if (!foreign_prevails()) return evict_from_disk(needed) || evict_foreign(needed, store::Kept::kTake) > ByteCount{};
  ByteCount freed = evict_foreign(needed, store::Kept::kSpare);
  if (freed < needed && foreign_prevails()) freed += evict_foreign(needed - freed, store::Kept::kTake);
  return freed >= needed || evict_from_disk(needed - freed);
}

void Cache::note_refused(SegmentId segment) {
  if (refused_.size() < options_.most_waiting) refused_.emplace_back(segment, entry(segment).serial);
}

void Cache::write_refused() {
  MutexLock lock(mutex_);
  for (const auto& [segment, serial] : std::exchange(refused_, {})) {
    (void)queue_unwritten(segment, serial);
  }
}

}  // namespace kvkeep::cache
