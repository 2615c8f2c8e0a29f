// The background half of the cache: what runs on the writer executor. Segments go to disk once, parents first; RAM and
// disk are brought back under their budgets. Nothing here is waited for by a request.

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "cache/cache.h"
#include "policy/evict.h"

namespace kvkeep::cache {

namespace {

// RAM is trimmed below its budget by this share, so that not every new segment pays for a decision.
constexpr std::uint64_t kTrimShare = 16;

// Extra room made on disk, so that eviction runs once for many segments.
constexpr std::uint64_t kDiskSlackShare = 64;

// At most this share of all headers is missing in the saved index (see CacheOptions::save_index_after).
constexpr std::size_t kUnsavedShare = 8;

}  // namespace

void Cache::write_back(SegmentId segment) {
  std::vector<SegmentId> path;
  {
    MutexLock lock(mutex_);
    --counters_.waiting_writes;
    if (entry(segment).live && disk_ != nullptr) path = unwritten_path(segment);
  }
  for (const SegmentId next : path) {
    if (!write_one(next)) break;  // without its parent a child would leave a hole
    note_unsaved_header();
  }
  {
    MutexLock lock(mutex_);
    if (Entry& known = entry(segment); known.disk == DiskState::kWaiting) known.disk = DiskState::kUnwritten;
  }
  settle_payload(segment);
  trim_ram();
}

// Segments from the root to `segment` that are not on disk, if every one of them can be written.
std::vector<SegmentId> Cache::unwritten_path(SegmentId segment) {
  if (index_.info(segment).range.end.value() < options_.min_disk_tokens) return {};
  std::vector<SegmentId> unwritten;
  for (const SegmentId on_path : index_.path(segment)) {
    const Entry& known = entry(on_path);
    if (known.disk == DiskState::kOnDisk) continue;
    if (known.dead || known.payload == nullptr) return {};
    unwritten.push_back(on_path);
  }
  return unwritten;
}

bool Cache::write_one(SegmentId segment) {
  format::SegmentHeader header;
  std::shared_ptr<const store::Payload> payload;
  {
    MutexLock lock(mutex_);
    Entry& known = entry(segment);
    if (known.dead || known.payload == nullptr) return false;
    known.disk = DiskState::kWriting;
    header = header_of(segment);
    payload = known.payload;
  }
  const Status written = put_with_room(header, *payload);
  MutexLock lock(mutex_);
  Entry& known = entry(segment);
  known.disk = written ? DiskState::kOnDisk : DiskState::kUnwritten;
  if (!written) log_refusal(written.error());
  if (!dead_.empty()) sweep_dead();
  return written.ok();
}

// The first refusal and then ever fewer: a full disk must not fill the log.
void Cache::log_refusal(const Error& error) {
  const std::uint64_t count = ++counters_.disk_refused;
  if ((count & (count - 1)) == 0)
    spdlog::warn("kv cache: {} segments not stored on disk so far: {}{}", count, error.message,
                 error.kind == ErrorKind::kNoSpace ? " (see --kv-disk-space-mb)" : "");
}

// A budget made smaller holds from the start, not only when something is stored.
void Cache::fit_disk_budget() {
  if (disk_->used() <= disk_->budget()) return;
  const ByteCount over = disk_->used() - disk_->budget();
  if (disk_->remove_foreign(over) < over) evict_from_disk(disk_->used() - disk_->budget());
}

Status Cache::put_with_room(const format::SegmentHeader& header, const store::Payload& payload) {
  const std::vector<store::PartBytes> parts{{format::PartKind::kRows, payload.bytes()}};
  Status written = disk_->put(header, parts);
  if (written || written.error().kind != ErrorKind::kNoSpace) return written;
  const ByteCount over = disk_->used() > disk_->budget() ? disk_->used() - disk_->budget() : ByteCount{};
  const ByteCount slack{disk_->budget().value() / kDiskSlackShare};
  const ByteCount needed = os::physical_size(ByteCount{payload.size()}) + slack + over;
  // State of other models and settings goes first while it holds more than half: who changes between two models keeps
  // something of each.
  const bool foreign_first = disk_->foreign_bytes().value() > disk_->budget().value() / 2;
  const bool freed = foreign_first ? disk_->remove_foreign(needed) >= needed || evict_from_disk(needed)
                                   : evict_from_disk(needed) || disk_->remove_foreign(needed) > ByteCount{};
  if (!freed) return written;
  return disk_->put(header, parts);
}

// Frees about `needed` bytes of the disk tier. False: nothing could leave.
bool Cache::evict_from_disk(ByteCount needed) {
  policy::EvictView view;
  view.now_ns = clock_.wall_ns();
  {
    MutexLock lock(mutex_);
    const std::vector<bool> needed_there = needed_on_disk();
    for (std::uint32_t id = 1; id < entries_.size(); ++id) {
      const Entry& known = entries_[id];
      if (!known.live || known.disk != DiskState::kOnDisk) continue;
      const index::SegmentInfo& info = index_.info(SegmentId{id});
      view.candidates.push_back({SegmentId{id}, info.parent, os::physical_size(ByteCount{known.part.size_bytes}),
                                 static_cast<std::uint32_t>(info.range.size()), info.range.begin, known.last_used_ns,
                                 known.hits, needed_there[id]});
    }
  }
  // Decided without the lock, which requests want too: each victim is looked at again before it goes.
  std::size_t freed = 0;
  const ByteCount used_before = disk_->used();
  for (const SegmentId victim : policy::choose_victims(view, needed)) {
    format::SegmentName name;
    {
      MutexLock lock(mutex_);
      if (!may_leave_disk(victim)) continue;  // used meanwhile, and with it its ancestors: they are refused as well
      entry(victim).disk = DiskState::kRemoving;
      name = header_of(victim).name;
    }
    const bool removed = disk_->remove(name).ok();
    MutexLock lock(mutex_);
    Entry& known = entry(victim);
    known.disk = removed ? DiskState::kNone : DiskState::kOnDisk;
    if (!removed) break;
    ++freed;
    ++counters_.disk_evicted;
    if (known.payload == nullptr) {  // gone from every tier: what continues it in RAM alone is out of reach too
      bury(victim);
      sweep_dead();
    }
  }
  if (freed > 0) {
    spdlog::info("kv cache evicted segments={} from=disk used={} MiB before={} MiB budget={} MiB", freed,
                 disk_->used().value() >> 20, used_before.value() >> 20, disk_->budget().value() >> 20);
  }
  return freed > 0;
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
  }
  return needed;
}

bool Cache::may_leave_disk(SegmentId segment) {
  const Entry& known = entry(segment);
  if (!known.live || known.disk != DiskState::kOnDisk || subtree_held(segment) || subtree_waits(segment)) return false;
  return std::ranges::none_of(index_.children(segment), [&](SegmentId child) REQUIRES(mutex_) {
    return entry(child).disk == DiskState::kOnDisk;
  });
}

bool Cache::subtree_waits(SegmentId segment) {
  if (entry(segment).disk == DiskState::kWaiting) return true;
  return std::ranges::any_of(index_.children(segment),
                             [&](SegmentId child) REQUIRES(mutex_) { return subtree_waits(child); });
}

// Saves the disk's index when enough of it is old: each header in it is copied once for so many new ones.
void Cache::note_unsaved_header() {
  {
    MutexLock lock(mutex_);
    if (++unsaved_headers_ < std::max(options_.save_index_after, index_.segment_count() / kUnsavedShare)) return;
    unsaved_headers_ = 0;
  }
  disk_->save_index();
}

// Once written, rows move from the staging buffer, which others wait for, to memory of their exact size.
void Cache::settle_payload(SegmentId segment) {
  std::shared_ptr<const store::Payload> payload;
  {
    MutexLock lock(mutex_);
    const Entry& known = entry(segment);
    if (!known.live || known.payload == nullptr || !known.payload->staged()) return;
    payload = known.payload;
  }
  std::shared_ptr<const store::Payload> exact = store::compact(*payload);
  MutexLock lock(mutex_);
  Entry& known = entry(segment);
  if (known.live && known.payload == payload) known.payload = std::move(exact);
}

void Cache::trim_ram() {
  MutexLock lock(mutex_);
  if (ram_used_ > options_.ram_budget) make_ram_room(options_.ram_budget, ByteCount{});
}

// Drops payloads until `room` and a share of `limit` are free, or nothing may leave.
void Cache::make_ram_room(ByteCount limit, ByteCount room) {
  const ByteCount kept_free{std::min(limit.value(), std::max(room.value(), limit.value() / kTrimShare))};
  const ByteCount target = limit - kept_free;
  if (ram_used_ <= target) return;
  policy::EvictView view;
  view.now_ns = clock_.wall_ns();
  for (std::uint32_t id = 1; id < entries_.size(); ++id) {
    const Entry& known = entries_[id];
    if (!known.live || known.payload == nullptr) continue;
    const index::SegmentInfo& info = index_.info(SegmentId{id});
    // A copy on disk may leave RAM in any order; without one, leaving means forgetting, leaves first.
    const bool copy = known.disk == DiskState::kOnDisk;
    const bool held =
        !copy && (known.pins > 0 || known.disk == DiskState::kWaiting || known.disk == DiskState::kWriting);
    view.candidates.push_back({SegmentId{id}, copy ? kRootSegment : info.parent, ByteCount{known.payload->size()},
                               static_cast<std::uint32_t>(info.range.size()), info.range.begin, known.last_used_ns,
                               known.hits, held});
  }
  for (const SegmentId victim : policy::choose_victims(view, ram_used_ - target)) {
    Entry& known = entry(victim);
    ++counters_.ram_evicted;
    if (known.disk == DiskState::kOnDisk) {
      drop_payload(known);
    } else if (index_.info(victim).children == 0) {
      erase(victim);
    }
  }
}

}  // namespace kvkeep::cache
