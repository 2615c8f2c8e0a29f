#include "cache/write_back.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

namespace kvkeep::cache {

namespace {

// Segments that waited for the day's allowance and are offered again at once.
constexpr std::size_t kOfferedAtOnce = 64;

}  // namespace

WriteBack::WriteBack(const CacheOptions& options, CacheMutex& mutex, SegmentTable& table, RamTier& ram, RamRoom& room,
                     Forgetting& forgetting, StateChains& chains, Fetcher& fetcher, FurtherCopies& further,
                     DiskRoom* disk, const Distrust& distrust, os::Clock& clock, os::Executor& writer)
    : options_(options),
      mutex_(mutex),
      table_(table),
      ram_(ram),
      room_(room),
      forgetting_(forgetting),
      chains_(chains),
      fetcher_(fetcher),
      further_(further),
      disk_(disk),
      distrust_(distrust),
      writer_(writer),
      allowance_(mutex, table, disk != nullptr ? &disk->tier().store() : nullptr, clock),
      backlog_(table, options.most_waiting) {}

// ---- offers ----

// Also without a disk: the writer builds states and settles payloads.
void WriteBack::enter(SegmentId segment) {
  const Backlog::Item item = backlog_.enter(segment);
  if (disk_ == nullptr) table_.set_copy(segment, kDiskTier, CopyState::kAbsent);
  writer_.post([this, item] { take(item); });
}

void WriteBack::offer(SegmentId segment) {
  const ByteCount size = table_.entry(segment).charged;
  if (disk_ == nullptr || backlog_.queued_bytes() + size <= room_.write_queue_limit()) return enter(segment);
  backlog_.wait(segment, Waits::kQueue);
  if (std::has_single_bit(++held_back_))  // the first, and then ever fewer
    spdlog::info("kv cache: the disk lags: {} segments so far waited in RAM, where a kill would lose them", held_back_);
}

void WriteBack::keep_on_disk(SegmentId leaf) {
  if (table_.entry(leaf).keeping == Keeping::kOnDisk) return;
  table_.set_keeping(leaf, Keeping::kOnDisk);
  const Entry& known = table_.entry(leaf);
  if (known.unwritten() && known.in_ram() && !known.forgotten) offer(leaf);
}

void WriteBack::note_use(SegmentId segment) {
  const Entry& known = table_.entry(segment);
  const bool waits = known.unwritten() && known.in_ram() && !known.forgotten;
  const bool fits = backlog_.queued_bytes() + known.charged <= room_.write_queue_limit();
  if (allowance_.limited() && waits && fits) enter(segment);
}

void WriteBack::write_again(SegmentId segment) {
  table_.set_hole(segment);
  enter(segment);
}

// ---- waiting segments ----

// With `half`, stops when the queue is half as long as it may be.
void WriteBack::offer_waiting(Waits waits, std::size_t most, bool half) {
  const std::uint64_t enough_bytes = room_.write_queue_limit().value() / 2;
  for (std::size_t offered = 0; offered < most && !closing_; ++offered) {
    if (half && backlog_.queued_bytes().value() >= enough_bytes) return;
    const auto next = backlog_.next(waits);
    if (!next) return;
    enter(*next);
  }
}

void WriteBack::go_on(bool more_room) {
  const bool plenty = allowance_.limited() && allowance_.plenty();
  CacheLock lock(mutex_);
  if (more_room) offer_waiting(Waits::kRoom, SIZE_MAX, false);
  // While nothing new is stored, only a waiting segment can find out that a full disk has room again.
  if (disk_stopped_ && backlog_.queued_bytes() == ByteCount{}) offer_waiting(Waits::kQueue, 1, false);
  if (plenty) offer_waiting(Waits::kAllowance, kOfferedAtOnce, true);
}

void WriteBack::drain() {
  // Segments that are held back enter the queue as it gets shorter.
  const auto held_back = [this] {
    CacheLock lock(mutex_);
    return backlog_.remembered(Waits::kQueue);
  };
  for (std::size_t before = SIZE_MAX; held_back() < before;) {
    before = held_back();
    writer_.drain();
  }
}

void WriteBack::put_off(SegmentId segment) {
  backlog_.wait(segment, Waits::kAllowance);
  if (std::has_single_bit(++times_put_off_))  // the first, and then ever fewer
    spdlog::info(
        "kv disk: today's writes (--kv-disk-write-mb-per-day) are nearly used up: {} times so far a segment waited in "
        "RAM until more may be written",
        times_put_off_);
}

void WriteBack::count(CacheStats& stats) const {
  stats.disk_refused = refused_;
  stats.waiting_writes = backlog_.queued();
  stats.held_back = held_back_;
  stats.remembered = backlog_.remembered();
  stats.disk_stops = disk_stops_;
  stats.put_off = times_put_off_;
}

// ---- writing ----

void WriteBack::take(const Backlog::Item& item) {
  bool same = false;
  {
    CacheLock lock(mutex_);
    same = backlog_.leave(item);
  }
  if (same) write(item.segment);
  CacheLock lock(mutex_);
  if (!disk_stopped_) offer_waiting(Waits::kQueue, SIZE_MAX, true);
}

void WriteBack::write(SegmentId segment) {
  build(segment);
  const Waits waits = disk_ != nullptr ? write_path(segment) : Waits::kNothing;
  {
    CacheLock lock(mutex_);
    const Entry& known = table_.entry(segment);
    const bool left_over = known.live && (known.queued() || known.unwritten());
    if (left_over && waits == Waits::kAllowance) {
      put_off(segment);
    } else if (left_over && (known.queued() || waits != Waits::kContinuation)) {
      backlog_.wait(segment, waits);
    }
  }
  further_.offer(segment);  // as long as RAM has it
  settle(segment);
  room_.trim();
}

// Stores a whole state as differences if that saves something.
void WriteBack::build(SegmentId leaf) {
  const auto build = chains_.begin_build(leaf);
  if (!build) return;
  const Result<TierPort::Bytes> base = fetcher_.fetch(build->base);
  chains_.finish_build(*build, base ? *base : nullptr);
}

// Writes the part of the path to a segment that is not on disk, and leaves that wait there. Returns what the segment
// waits for if it is not on disk after that.
Waits WriteBack::write_path(SegmentId segment) {
  std::vector<SegmentId> path;
  std::vector<SegmentId> leaves;
  {
    CacheLock lock(mutex_);
    if (table_.entry(segment).live) {
      path = unwritten_path(segment);
      leaves = unwritten_leaves(segment);
    }
  }
  if (!allowance_.spares(segment, path)) return Waits::kAllowance;
  for (const SegmentId next : path) {
    if (!allowance_.left()) return Waits::kAllowance;
    if (write_one(next)) continue;
    CacheLock lock(mutex_);
    if (disk_stopped_) return Waits::kQueue;
    return disk_->tier().store().keeper() ? Waits::kContinuation : Waits::kRoom;
  }
  // Leaves are independent: a missing one leaves no hole.
  for (const SegmentId leaf : leaves) {
    if (!write_leaf(leaf)) continue;
  }
  // A segment too short for a file is not tried again: it is written with what continues it.
  return Waits::kContinuation;
}

bool WriteBack::write_leaf(SegmentId leaf) {
  if (allowance_.left() && allowance_.spares(leaf, {leaf})) return write_one(leaf);
  CacheLock lock(mutex_);
  const Entry& known = table_.entry(leaf);
  if (known.live && known.unwritten()) put_off(leaf);
  return false;
}

// The segments from the root to `segment` that are not on disk; empty if any of them cannot be written.
std::vector<SegmentId> WriteBack::unwritten_path(SegmentId segment) const {
  const index::SegmentInfo& info = table_.info(segment);
  // The beginning of a window that gets a file is needed with it.
  const bool begins_window = info.kind == format::PartKind::kWindowRows && table_.entry(info.parent).on_disk();
  if (info.range.end.value() < options_.min_disk_tokens && !begins_window) return {};
  std::vector<SegmentId> unwritten;
  for (SegmentId on_path = segment; on_path != kRootSegment; on_path = table_.info(on_path).parent) {
    const Entry& known = table_.entry(on_path);
    // The parent of a file is on disk as well, unless other hands removed it. A path may have as many segments as there
    // are, so the loop looks at all of it only if there is a hole.
    if (known.on_disk() && table_.holes() == 0) break;
    if (known.on_disk()) continue;
    if (known.forgotten || !known.in_ram()) return {};
    unwritten.push_back(on_path);
  }
  std::ranges::reverse(unwritten);
  return unwritten;
}

// Leaves on the path to `segment` that were too short for a file or could not be written, if its file takes them along:
// a short point saves too little, a window may be the beginning of the next one.
std::vector<SegmentId> WriteBack::unwritten_leaves(SegmentId segment) {
  if (!options_.shape.needs_points() || table_.info(segment).range.end.value() < options_.min_disk_tokens) return {};
  const SegmentId deepest = table_.entry(segment).is_leaf() ? table_.info(segment).parent : segment;
  std::vector<SegmentId> path;
  // Goes no further than to where an earlier look found none, if no leaf was left anywhere since.
  for (SegmentId next = deepest; next != kRootSegment && !table_.leaves_are_written(next);
       next = table_.info(next).parent) {
    path.push_back(next);
  }
  std::vector<SegmentId> unwritten;
  for (auto on_path = path.rbegin(); on_path != path.rend(); ++on_path) {
    for (const SegmentId leaf : table_.index().leaves_of(*on_path)) {
      const bool waits = table_.entry(leaf).unwritten() && takes_along(leaf);
      if (waits && table_.file_size(leaf) <= disk_->tier().budget()) unwritten.push_back(leaf);
    }
  }
  if (unwritten.empty() && deepest != kRootSegment) table_.note_leaves_written(deepest);
  return unwritten;
}

// Returns true if a leaf is written with what continues its path.
bool WriteBack::takes_along(SegmentId leaf) const {
  const Entry& known = table_.entry(leaf);
  if (known.keeping != Keeping::kOnDisk) return false;
  return known.part.kind == format::PartKind::kWindowRows ||
         (known.is_leaf() && table_.info(leaf).range.end.value() >= options_.min_disk_tokens);
}

bool WriteBack::leaves_no_hole(SegmentId segment) const {
  for (const SegmentId needed : {table_.info(segment).parent, table_.entry(segment).base}) {
    if (needed != kRootSegment && !table_.entry(needed).on_disk()) return false;
  }
  return true;
}

bool WriteBack::write_one(SegmentId segment) {
  if (distrust_) return false;
  TierItem item;
  TierPort::Bytes bytes;
  Waits waits = Waits::kContinuation;
  {
    CacheLock lock(mutex_);
    const Entry& known = table_.entry(segment);
    bytes = ram_.find(segment);
    if (!known.live || known.forgotten || bytes == nullptr) return false;
    if (!leaves_no_hole(segment)) return false;
    if (known.unwritten()) waits = known.waits;
    table_.set_copy(segment, kDiskTier, CopyState::kComing);
    item = table_.item(segment);
  }
  const Status written = disk_->put(item, bytes);
  {
    CacheLock lock(mutex_);
    written ? table_.set_copy(segment, kDiskTier, CopyState::kHere) : table_.set_unwritten(segment, waits);
    note_disk_room();
    if (!written) note_refusal(written.error());
    if (written && table_.entry(segment).kept_until_ns > 0) disk_->tier().post_touch(segment);
    forgetting_.sweep();
  }
  if (written) disk_->tier().note_unsaved();
  return written.ok();
}

// Logs when storing stops and when it goes on; if that alternates, the first times and then fewer and fewer.
void WriteBack::note_disk_room() {
  const bool stopped = disk_->tier().store().stopped();
  if (std::exchange(disk_stopped_, stopped) == stopped) return;
  if (!stopped && std::exchange(said_stopped_, false))
    spdlog::info("kv disk: the file system has room again: storing on disk goes on");
  if (!stopped || !std::has_single_bit(++disk_stops_)) return;
  said_stopped_ = true;
  spdlog::warn(
      "kv disk: the file system is full, or has less free space than --kv-disk-reserve-mb: nothing is stored on disk "
      "until it has more, requests are served from memory (stopped {} so far)",
      disk_stops_ == 1 ? "once" : std::to_string(disk_stops_) + " times");
}

// Logs the first refusal and then fewer and fewer.
void WriteBack::note_refusal(const Error& error) {
  ++refused_;
  if (disk_stopped_ || !std::has_single_bit(refused_)) return;
  spdlog::warn("kv cache: {} not stored on disk so far: {}",
               refused_ == 1 ? "1 segment" : std::to_string(refused_) + " segments", error.message);
}

// ---- settling ----

void WriteBack::post_settle(SegmentId segment) {
  writer_.post([this, segment] { settle(segment); });
}

// Does not copy a payload that is larger than the whole budget, which would only leave.
void WriteBack::settle(SegmentId segment) {
  TierPort::Bytes bytes;
  {
    CacheLock lock(mutex_);
    const Entry& known = table_.entry(segment);
    bytes = ram_.find(segment);
    if (bytes == nullptr) return;
    const bool stays = known.part.size_bytes > 0 && known.charged <= options_.ram_budget;
    if (!stays && known.on_disk()) return ram_.let_go(segment);
    if (!bytes->staged()) return;
  }
  TierPort::Bytes exact = store::compact(*bytes);
  CacheLock lock(mutex_);
  if (ram_.find(segment) == bytes) ram_.replace(segment, std::move(exact));
}

}  // namespace kvkeep::cache
