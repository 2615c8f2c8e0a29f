// The background half of the cache: what runs on the writer executor. Segments and points go to disk once, what they
// hang below first. Nothing here is waited for by a request.

#include <spdlog/spdlog.h>

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "cache/cache.h"
#include "cache/mutations.h"

namespace kvkeep::cache {

namespace {

// At most this share of all headers is missing in the saved index (see CacheOptions::save_index_after).
constexpr std::size_t kUnsavedShare = 8;

}  // namespace

// ---- the queue ----

ByteCount Cache::write_queue_limit() const {
  if (options_.write_queue > ByteCount{}) return options_.write_queue;
  const ByteCount least = kMinimumWriteQueue + largest_point_ + largest_point_;
  return std::min(ram_limit(), std::max(ByteCount{ram_limit().value() / 2}, least));
}

void Cache::queue_write(SegmentId segment) {
  const Entry& known = entry(segment);
  const Waiting waiting{segment, known.serial, known.charged};
  set_disk(segment, disk_ != nullptr ? DiskState::kWaiting : DiskState::kNone);
  ++counters_.waiting_writes;
  queued_bytes_ += waiting.bytes;
  writer_.post([this, waiting] { write_back(waiting); });
}

// The newest wait, so nothing that is on disk or in the queue hangs below what does. In RAM it is like all that may be
// forgotten there; until then it is written in its turn, or before with what continues it.
void Cache::hold_back(SegmentId segment) {
  const Entry& known = entry(segment);
  set_disk(segment, DiskState::kUnwritten);
  if (held_back_.size() >= options_.most_waiting) held_back_.pop_front();
  held_back_.push_back({segment, known.serial, known.charged});
}

void Cache::queue_held_back() {
  MutexLock lock(mutex_);
  while (!closing_ && !disk_stopped_ && !held_back_.empty() &&
         queued_bytes_.value() < write_queue_limit().value() / 2) {
    (void)queue_oldest_held_back();
  }
}

bool Cache::queue_oldest_held_back() {
  const Waiting next = held_back_.front();
  held_back_.pop_front();
  return queue_unwritten(next.segment, next.serial);
}

// False: it is not what waited, or is on disk by now.
bool Cache::queue_unwritten(SegmentId segment, std::uint64_t serial) {
  const Entry& known = entry(segment);
  const bool same = known.live && known.serial == serial;
  if (!same || known.disk != DiskState::kUnwritten || known.payload == nullptr) return false;
  queue_write(segment);
  return true;
}

// While nothing new is stored, what waits is the only way to learn that a full disk has room again.
void Cache::try_stopped_disk() {
  MutexLock lock(mutex_);
  while (disk_stopped_ && queued_bytes_ == ByteCount{} && !held_back_.empty() && !queue_oldest_held_back()) {}
}

void Cache::flush() {
  drain_writes();
  // Who does not keep the budget hears at last what was removed by who does. What RAM has of that is written again:
  // else the end of a conversation that went on meanwhile would lie below a hole.
  if (disk_ != nullptr && !disk_->keeper()) {
    writer_.post([this] { share(store::Look::kNow); });
    drain_writes();
  }
  reader_.drain();
  if (disk_ != nullptr) disk_->save_index();
}

void Cache::drain_writes() {
  // What is held back enters the queue as that gets shorter.
  const auto held_back = [this] {
    MutexLock lock(mutex_);
    return held_back_.size();
  };
  for (std::size_t before = SIZE_MAX; held_back() < before;) {
    before = held_back();
    writer_.drain();
  }
}

// ---- writing ----

void Cache::write_back(const Waiting& waiting) {
  const SegmentId segment = waiting.segment;
  bool forgotten = false;
  {
    MutexLock lock(mutex_);
    --counters_.waiting_writes;
    queued_bytes_ -= waiting.bytes;
    // What has its number now may be one that is forgotten on disk before it is written anew: its own turn comes.
    forgotten = entry(segment).serial != waiting.serial;
  }
  if (!forgotten) write_path(segment);
  queue_held_back();
}

void Cache::write_path(SegmentId segment) {
  build_state(segment);
  std::vector<SegmentId> path;
  std::vector<SegmentId> leaves;
  {
    MutexLock lock(mutex_);
    if (entry(segment).live && disk_ != nullptr) {
      path = unwritten_path(segment);
      leaves = unwritten_leaves(segment);
    }
  }
  const bool spared = spares_writes_for(segment, path);
  if (!spared) path.clear();
  if (mutations().write_child_first) std::ranges::reverse(path);
  const bool whole =
      std::ranges::all_of(path, [&](SegmentId next) { return may_write_more(segment) && write_one(next); });
  for (const SegmentId leaf : leaves) {
    // Leaves are independent: a missing one leaves no hole.
    if (spared && whole && may_write_more(leaf) && spares_writes_for(leaf, {leaf})) (void)write_one(leaf);
  }
  {
    MutexLock lock(mutex_);
    if (!whole && !disk_->keeper()) note_refused(segment);
    if (entry(segment).disk == DiskState::kWaiting) set_disk(segment, DiskState::kUnwritten);
    // Tried again when there is room. What was too short for a file is not: what continues it takes it along.
    if (disk_stopped_ && !whole && entry(segment).disk == DiskState::kUnwritten) hold_back(segment);
  }
  settle_payload(segment);
  trim_ram();
}

// From the root to `segment` what is not on disk, if all of it can be written.
std::vector<SegmentId> Cache::unwritten_path(SegmentId segment) {
  const index::SegmentInfo& info = index_.info(segment);
  // The beginning of a window that is worth a file is needed with it.
  const bool begins_window =
      info.kind == format::PartKind::kWindowRows && entry(info.parent).disk == DiskState::kOnDisk;
  if (info.range.end.value() < options_.min_disk_tokens && !begins_window) return {};
  std::vector<SegmentId> unwritten;
  for (SegmentId on_path = segment; on_path != kRootSegment; on_path = index_.info(on_path).parent) {
    const Entry& known = entry(on_path);
    // What a file hangs below is on disk as well, unless other hands removed it. A path may be as long as there are
    // segments, so that is not looked at for each of them.
    if (known.disk == DiskState::kOnDisk && holes_.empty()) break;
    if (known.disk == DiskState::kOnDisk) continue;
    if (known.dead || known.payload == nullptr) return {};
    unwritten.push_back(on_path);
  }
  std::ranges::reverse(unwritten);
  return unwritten;
}

// Leaves on the path to `segment` that were too short for a file or could not be written: what continues them takes
// them along. A short point would not be worth it, a window may be the beginning of the next one.
std::vector<SegmentId> Cache::unwritten_leaves(SegmentId segment) {
  if (!options_.shape.needs_points() || index_.info(segment).range.end.value() < options_.min_disk_tokens) return {};
  const SegmentId deepest = is_leaf(entry(segment)) ? index_.info(segment).parent : segment;
  std::vector<SegmentId> path;
  // Not farther than to where none was left when it was looked at, if none was left anywhere since.
  for (SegmentId next = deepest; next != kRootSegment && entry(next).leaves_written != leaves_unwritten_;
       next = index_.info(next).parent) {
    path.push_back(next);
  }
  std::vector<SegmentId> unwritten;
  for (auto on_path = path.rbegin(); on_path != path.rend(); ++on_path) {
    for (const SegmentId leaf : index_.attached(*on_path)) {
      const bool waits = entry(leaf).disk == DiskState::kUnwritten && takes_along(leaf);
      if (waits && file_size(leaf) <= disk_->budget()) unwritten.push_back(leaf);
    }
  }
  if (unwritten.empty() && deepest != kRootSegment) entry(deepest).leaves_written = leaves_unwritten_;
  return unwritten;
}

// Whether what continues a leaf's path takes the leaf along to the disk.
bool Cache::takes_along(SegmentId leaf) const {
  const Entry& known = entry(leaf);
  if (known.keeping != Keeping::kOnDisk) return false;
  return known.part.kind == format::PartKind::kWindowRows ||
         (is_leaf(known) && index_.info(leaf).range.end.value() >= options_.min_disk_tokens);
}

bool Cache::write_one(SegmentId segment) {
  if (distrusted_) return false;
  format::SegmentHeader header;
  std::shared_ptr<const store::Payload> payload;
  {
    MutexLock lock(mutex_);
    const Entry& known = entry(segment);
    if (!known.live || known.dead || known.payload == nullptr) return false;
    const SegmentId above = index_.info(segment).parent;
    for (const SegmentId needed : {above, known.base}) {
      if (needed == kRootSegment || entry(needed).disk == DiskState::kOnDisk) continue;
      if (!mutations().write_child_first) return false;  // it would leave a hole
    }
    set_disk(segment, DiskState::kWriting);
    header = header_of(segment);
    payload = known.payload;
  }
  const Status written = put_with_room(header, *payload);
  {
    MutexLock lock(mutex_);
    set_disk(segment, written ? DiskState::kOnDisk : DiskState::kUnwritten);
    note_disk_room();
    if (!written) note_refusal(written.error());
    if (written && entry(segment).kept_until_ns > 0) post_touch(segment);
    if (!dead_.empty()) sweep_dead();
  }
  if (written) note_unsaved_header();
  return written.ok();
}

// Said when storing stops and when it goes on; where that alternates, of the first times and then of ever fewer.
void Cache::note_disk_room() {
  const bool stopped = disk_->stopped();
  if (std::exchange(disk_stopped_, stopped) == stopped) return;
  if (!stopped && std::exchange(said_stopped_, false))
    spdlog::info("kv disk: the file system has room again: storing on disk goes on");
  if (!stopped || !std::has_single_bit(++counters_.disk_stops)) return;
  said_stopped_ = true;
  spdlog::warn(
      "kv disk: the file system is full, or has less free space than --kv-disk-reserve-mb leaves to others: "
      "nothing is stored on disk until it has more; serving goes on with what is in memory ({} so far)",
      counters_.disk_stops == 1 ? "once" : std::to_string(counters_.disk_stops) + " times");
}

// The first refusal and then ever fewer.
void Cache::note_refusal(const Error& error) {
  const std::uint64_t count = ++counters_.disk_refused;
  if (disk_stopped_) return;
  if ((count & (count - 1)) == 0)
    spdlog::warn("kv cache: {} not stored on disk so far: {}",
                 count == 1 ? "1 segment" : std::to_string(count) + " segments", error.message);
}

Status Cache::put_with_room(const format::SegmentHeader& header, const store::Payload& payload) {
  const ByteCount file = os::physical_size(ByteCount{format::file_bytes(header)});
  // Nothing that leaves would make it fit.
  if (file > disk_->budget()) return no_space("a state is larger than the disk budget (see --kv-disk-space-mb)");
  // Nothing leaves for what a full file system would not take.
  if (header.name.kind != format::PartKind::kRows && !disk_->stopped() && !make_points_room(file))
    return no_space("points and windows have their share of the disk (see --kv-disk-points-share)");
  // The next start would leave some out.
  if (disk_->has_most_files() && disk_->keeper() && !evict_from_disk(disk_slack()))
    return no_space("the directory has as many files of this model as a server knows of, and none may leave");
  const std::vector<store::PartBytes> parts{{header.name.kind, payload.bytes()}};
  Status written = disk_->put(header, parts);
  const bool no_room = !written && written.error().kind == ErrorKind::kNoSpace;
  if (!no_room || disk_->stopped() || !disk_->keeper()) return written;
  if (!make_disk_room(file + disk_slack() + over_disk_budget())) return written;
  return disk_->put(header, parts);
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

// Once written, rows move from the staging buffer, which others wait for, to memory of their exact size; what is larger
// than all of the budget would only be copied to leave.
void Cache::settle_payload(SegmentId segment) {
  std::shared_ptr<const store::Payload> payload;
  {
    MutexLock lock(mutex_);
    Entry& known = entry(segment);
    if (!known.live || known.payload == nullptr) return;
    const bool stays = known.part.size_bytes > 0 && known.charged <= options_.ram_budget;
    if (!stays && known.disk == DiskState::kOnDisk) return drop_payload(segment);
    if (!known.payload->staged()) return;
    payload = known.payload;
  }
  std::shared_ptr<const store::Payload> exact = store::compact(*payload);
  MutexLock lock(mutex_);
  Entry& known = entry(segment);
  if (known.live && known.payload == payload) known.payload = std::move(exact);
}

}  // namespace kvkeep::cache
