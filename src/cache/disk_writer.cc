#include "cache/disk_writer.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

namespace kvkeep::cache {

WriteAllowance::WriteAllowance(CacheMutex& mutex, SegmentTable& table, store::DiskStore* store, os::Clock& clock)
    : mutex_(mutex), table_(table), store_(store), clock_(clock) {
  const auto writes = store_ != nullptr ? store_->writes() : std::nullopt;
  limited_ = writes.has_value();
  if (!writes || !writes->disbelieved) return;
  spdlog::warn(
      "kv disk: the file 'writes' in the cache directory cannot be read or is damaged, so nothing counts as left of "
      "today's writes (--kv-disk-write-mb-per-day): storing on disk goes on little by little as the day passes; for a "
      "full allowance, stop the servers and delete that file");
}

// Precondition: `path` is not empty.
policy::WriteOffer WriteAllowance::offer(SegmentId segment, const std::vector<SegmentId>& path) const {
  policy::WriteOffer offer;
  const std::int64_t now_ns = clock_.wall_ns();
  for (const SegmentId unwritten : path) {
    const Entry& known = table_.entry(unwritten);
    offer.bytes += table_.file_size(unwritten);
    offer.returns = std::max<double>(offer.returns, known.hits);
    offer.kept |= known.kept_until_ns > now_ns;
  }
  const index::SegmentInfo& first = table_.info(path.front());
  if (first.parent != kRootSegment) {
    const double branches = static_cast<double>(std::max<std::size_t>(1, table_.info(first.parent).children));
    offer.returns = std::max(offer.returns, table_.entry(first.parent).hits / branches);
  }
  offer.begin = table_.entry(segment).is_leaf() ? stop_before(segment) : first.range.begin;
  offer.tokens = static_cast<std::uint32_t>(table_.info(segment).range.end - offer.begin);
  return offer;
}

// The end of the last leaf of the same kind on the path, before this one's end, that is on disk; 0 if there is none.
Position WriteAllowance::stop_before(SegmentId leaf) const {
  const index::SegmentInfo& own = table_.info(leaf);
  for (SegmentId within = own.parent; within != kRootSegment; within = table_.info(within).parent) {
    Position last;
    for (const SegmentId other : table_.index().leaves_of(within)) {
      const index::SegmentInfo& info = table_.info(other);
      const bool before = info.kind == own.kind && info.range.end < own.range.end;
      if (before && table_.entry(other).on_disk()) last = std::max(last, info.range.end);
    }
    if (last > Position{}) return last;
  }
  return {};
}

bool WriteAllowance::spares(SegmentId segment, const std::vector<SegmentId>& path) {
  if (!limited_ || path.empty()) return true;
  const auto allowance = store_->writes();
  if (!allowance) return true;
  CacheLock lock(mutex_);
  // A path that was forgotten meanwhile is not written when its turn comes.
  for (const SegmentId unwritten : path) {
    if (!table_.entry(unwritten).live) return true;
  }
  const policy::WriteOffer offered = offer(segment, path);
  policy::AdmitView view{.left = allowance->left, .most = allowance->most, .usual_saved = usual_saved_};
  view.usual_saved = usual_saved_ = policy::next_usual_saved(view, offered);
  return policy::admits(view, offered);
}

bool WriteAllowance::left() const {
  const auto allowance = limited_ ? store_->writes() : std::nullopt;
  return !allowance || allowance->left > ByteCount{};
}

bool WriteAllowance::plenty() const {
  const auto allowance = limited_ ? store_->writes() : std::nullopt;
  return !allowance || allowance->left.value() >= allowance->most.value() / 2;
}

DiskWriter::Outcome DiskWriter::write_path(SegmentId segment) {
  std::vector<SegmentId> path;
  std::vector<SegmentId> leaves;
  {
    CacheLock lock(mutex_);
    if (table_.entry(segment).live) {
      path = unwritten_path(segment);
      leaves = unwritten_leaves(segment);
    }
  }
  if (!allowance_.spares(segment, path)) return {Waits::kAllowance};
  for (const SegmentId next : path) {
    if (!allowance_.left()) return {Waits::kAllowance};
    if (write_one(next)) continue;
    CacheLock lock(mutex_);
    if (stopped_) return {Waits::kQueue};
    return {disk_.tier().store().keeper() ? Waits::kContinuation : Waits::kRoom};
  }
  // A segment too short for a file is not tried again: it is written with what continues it.
  Outcome outcome;
  // Leaves are independent: a missing one leaves no hole.
  for (const SegmentId leaf : leaves) {
    if (allowance_.left() && allowance_.spares(leaf, {leaf})) {
      write_one(leaf);
    } else {
      outcome.put_off.push_back(leaf);
    }
  }
  return outcome;
}

void DiskWriter::count(CacheStats& stats) const {
  stats.disk_refused = refused_;
  stats.disk_stops = stops_;
  stats.written = written_;
}

// The segments from the root to `segment` that are not on disk; empty if any of them cannot be written.
std::vector<SegmentId> DiskWriter::unwritten_path(SegmentId segment) const {
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
std::vector<SegmentId> DiskWriter::unwritten_leaves(SegmentId segment) {
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
      if (waits && table_.file_size(leaf) <= disk_.tier().budget()) unwritten.push_back(leaf);
    }
  }
  if (unwritten.empty() && deepest != kRootSegment) table_.note_leaves_written(deepest);
  return unwritten;
}

// Returns true if a leaf is written with what continues its path.
bool DiskWriter::takes_along(SegmentId leaf) const {
  const Entry& known = table_.entry(leaf);
  if (known.keeping != Keeping::kOnDisk) return false;
  return known.part.kind == format::PartKind::kWindowRows ||
         (known.is_leaf() && table_.info(leaf).range.end.value() >= options_.min_disk_tokens);
}

bool DiskWriter::leaves_no_hole(SegmentId segment) const {
  for (const SegmentId needed : {table_.info(segment).parent, table_.entry(segment).base}) {
    if (needed != kRootSegment && !table_.entry(needed).on_disk()) return false;
  }
  return true;
}

bool DiskWriter::write_one(SegmentId segment) {
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
  const std::int64_t begin_ns = clock_.monotonic_ns();
  const Status written = disk_.put(item, bytes);
  const double ms = os::elapsed_ms(begin_ns, clock_.monotonic_ns());
  {
    CacheLock lock(mutex_);
    if (written) written_.add(ByteCount{bytes->size()}, ms);
    written ? table_.set_copy(segment, kDiskTier, CopyState::kHere) : table_.set_unwritten(segment, waits);
    note_disk_room();
    if (!written) note_refusal(written.error());
    if (written && table_.entry(segment).kept_until_ns > 0) disk_.tier().post_touch(segment);
    forgetting_.sweep();
  }
  if (written) disk_.tier().note_unsaved();
  return written.ok();
}

// Logs when storing stops and when it goes on; if that alternates, the first times and then fewer and fewer.
void DiskWriter::note_disk_room() {
  const bool stopped = disk_.tier().store().stopped();
  if (std::exchange(stopped_, stopped) == stopped) return;
  if (!stopped && std::exchange(said_stopped_, false))
    spdlog::info("kv disk: the file system has room again: storing on disk goes on");
  if (!stopped || !std::has_single_bit(++stops_)) return;
  said_stopped_ = true;
  spdlog::warn(
      "kv disk: the file system is full, or has less free space than --kv-disk-reserve-mb: nothing is stored on disk "
      "until it has more, requests are served from memory (stopped {} so far)",
      stops_ == 1 ? "once" : std::to_string(stops_) + " times");
}

// Logs the first refusal and then fewer and fewer.
void DiskWriter::note_refusal(const Error& error) {
  if (error.kind == ErrorKind::kBusy) return;  // the store waits to enter its directory, and has said so
  ++refused_;
  if (stopped_ || !std::has_single_bit(refused_)) return;
  spdlog::warn("kv cache: {} not stored on disk so far: {}",
               refused_ == 1 ? "1 segment" : std::to_string(refused_) + " segments", error.message);
}

}  // namespace kvkeep::cache
