#include "cache/peer.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace kvkeep::cache {

void Peer::recover() { adopt(disk_.tier().store().take_recovered(), true); }

bool Peer::look(store::Look look) {
  store::DiskStore& store = disk_.tier().store();
  const bool kept = store.keeper();
  store::DiskTick tick = store.tick(look);
  if (!kept && store.keeper())
    spdlog::info("kv disk: the keeper is gone; this server keeps the budget of the directory now");
  if (!tick.gone.empty()) forget_gone(tick.gone);
  if (!tick.used.empty()) note_used(tick.used);
  if (!tick.found.empty() || (tick.looked && has_orphans())) adopt(std::move(tick.found), tick.looked);
  if (tick.shortage > ByteCount{}) {
    disk_.make(tick.shortage);
    (void)store.grant();
  }
  return tick.more_room;
}

bool Peer::has_orphans() const {
  CacheLock lock(mutex_);
  return !orphans_.empty();
}

// ---- segments that others stored ----

// A segment without a parent waits for the next look: a listing during writes may show it and miss its parent, which
// was written before it and which the next listing shows.
void Peer::adopt(std::vector<store::StoredSegment> found, bool looked) {
  CacheLock lock(mutex_);
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
  const std::vector<index::Placement> placements = table_.rebuild(named);
  // Placed segments live before the others are compared with them: a segment without a place may equal a later one.
  std::vector<std::size_t> left_over;
  std::size_t removed = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!place(found[i], placements[i])) left_over.push_back(i);
  }
  for (const std::size_t i : left_over) {
    const bool orphan = placements[i].outcome == index::Placement::Outcome::kOrphan;
    if (leave_over(std::move(found[i]), orphan, i < fresh) && orphan) ++removed;
  }
  if (removed > 0) {
    spdlog::warn("kv disk: removed {} orphaned segment{}: their parent is damaged or was deleted", removed,
                 removed == 1 ? "" : "s");
  }
  forgetting_.sweep();
}

// Returns false if it cannot be restored, or is known already.
bool Peer::place(const store::StoredSegment& found, const index::Placement& placement) {
  const format::SegmentHeader& header = found.header;
  const bool placed = placement.outcome == index::Placement::Outcome::kPlaced;
  const bool readable = header.parts.size() == 1 && header.parts.front().kind == header.name.kind;
  const auto base =
      placed && readable ? chains_.recovered_base(placement.segment, header.parts.front().base) : std::nullopt;
  if (!base) {
    if (placed) forgetting_.forget(placement.segment, std::nullopt);
    return false;
  }
  table_.begin_life(placement.segment, header, *base);
  table_.note_file_time(placement.segment, found.modified_ns, clock_.wall_ns());
  table_.set_copy(placement.segment, kDiskTier, CopyState::kHere);
  return true;
}

// For a segment without a place. Returns true if its file is removed.
bool Peer::leave_over(store::StoredSegment found, bool orphan, bool fresh) {
  const bool shared = disk_.tier().store().shared();
  if (shared && orphan && fresh) {
    orphans_.push_back(std::move(found));
    return false;
  }
  if (note_written(found.header)) return false;
  // A segment without its parent or base cannot be restored: a server by itself removes the file, which frees its
  // bytes.
  writer_.post([this, shared, name = found.header.name] {
    store::DiskStore& store = disk_.tier().store();
    shared ? store.disown(name) : (void)store.remove(name).ok();
  });
  return !shared;
}

// Returns true if it is a segment that RAM has here and that waits for room: it need not be written any more.
bool Peer::note_written(const format::SegmentHeader& header) {
  const auto same = table_.named(header.name);
  if (!same || header.parts.size() != 1) return false;
  const Entry& held = table_.entry(*same);
  const format::Part& part = header.parts.front();
  const bool waits = held.queued() || held.unwritten();
  if (!waits || held.forgotten || held.part.built() || part.built() || held.part.size_bytes != part.size_bytes)
    return false;
  table_.set_copy(*same, kDiskTier, CopyState::kHere);
  return true;
}

// ---- uses by others ----

// A use changes only the time of the deepest file; its ancestors were used with it.
void Peer::note_used(const std::vector<store::UsedSegment>& used) {
  CacheLock lock(mutex_);
  const std::int64_t now_ns = clock_.wall_ns();
  for (const store::UsedSegment& file : used) {
    const auto segment = table_.named(file.name);
    if (!segment) continue;
    const std::int64_t used_ns = std::min(file.modified_ns, now_ns);
    for (SegmentId above = table_.info(*segment).parent;
         above != kRootSegment && table_.entry(above).last_used_ns < used_ns; above = table_.info(above).parent) {
      table_.use(above, used_ns);
    }
    if (table_.entry(*segment).last_used_ns < used_ns) table_.use(*segment, used_ns);
    table_.note_file_time(*segment, file.modified_ns, now_ns);
  }
}

// ---- removals by others ----

void Peer::forget_gone(const std::vector<format::SegmentName>& gone) {
  std::vector<SegmentId> forgotten;
  CacheLock lock(mutex_);
  for (const format::SegmentName& name : gone) {
    const auto segment = table_.named(name);
    if (!segment || !table_.entry(*segment).on_disk()) continue;
    forget_file(*segment);
    forgotten.push_back(*segment);
  }
  for (const SegmentId segment : forgotten) {
    if (!table_.entry(segment).unwritten() || table_.entry(segment).forgotten) continue;
    const auto on_disk = [this](SegmentId below) REQUIRES(kCacheLock) { return table_.entry(below).on_disk(); };
    if (std::ranges::any_of(table_.below(segment), on_disk)) write_back_.write_again(segment);
  }
  forgetting_.sweep();
}

// RAM or a further tier may still have it. Otherwise it is gone from every tier, and its continuations cannot be
// reached. A file that has its name by now belongs to another server and stays.
void Peer::forget_file(SegmentId segment) {
  // Rows of no bytes are in RAM as long as the index has their ids.
  if (table_.entry(segment).part.size_bytes == 0 && ram_.find(segment) == nullptr)
    ram_.hold(segment, store::PayloadBuffer::allocate(0).freeze());
  if (table_.entry(segment).in_ram()) return table_.set_unwritten(segment, Waits::kContinuation);
  table_.set_copy(segment, kDiskTier, CopyState::kAbsent);
  if (!table_.entry(segment).below_ram()) forgetting_.forget(segment, explain::LossCause::kElsewhere);
}

}  // namespace kvkeep::cache
