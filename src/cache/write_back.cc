#include "cache/write_back.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "cache/cache_stats.h"

namespace kvkeep::cache {

namespace {

// Segments that waited for the day's allowance and are offered again at once.
constexpr std::size_t kOfferedAtOnce = 64;

}  // namespace

WriteBack::WriteBack(const CacheOptions& options, CacheMutex& mutex, SegmentTable& table, RamTier& ram, RamRoom& room,
                     Fetcher& fetcher, FurtherCopies& further, Publishing* publishing, DiskWriter* disk,
                     os::Executor& writer)
    : options_(options),
      mutex_(mutex),
      table_(table),
      ram_(ram),
      room_(room),
      fetcher_(fetcher),
      further_(further),
      publishing_(publishing),
      disk_(disk),
      writer_(writer),
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
  if (is_limited() && waits && fits) enter(segment);
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
  const bool plenty = is_limited() && disk_->allowance().plenty();
  CacheLock lock(mutex_);
  if (more_room) offer_waiting(Waits::kRoom, SIZE_MAX, false);
  // While nothing new is stored, only a waiting segment can find out that a full disk has room again.
  if (disk_is_stopped() && backlog_.queued_bytes() == ByteCount{}) offer_waiting(Waits::kQueue, 1, false);
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
  if (disk_ != nullptr) disk_->count(stats);
  stats.waiting_writes = backlog_.queued();
  stats.held_back = held_back_;
  stats.remembered = backlog_.remembered();
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
  if (!disk_is_stopped()) offer_waiting(Waits::kQueue, SIZE_MAX, true);
}

void WriteBack::write(SegmentId segment) {
  fetcher_.build(segment);
  const DiskWriter::Outcome outcome =
      disk_ != nullptr ? disk_->write_path(segment) : DiskWriter::Outcome{Waits::kNothing};
  {
    CacheLock lock(mutex_);
    for (const SegmentId leaf : outcome.put_off) {
      if (table_.entry(leaf).live && table_.entry(leaf).unwritten()) put_off(leaf);
    }
    const Entry& known = table_.entry(segment);
    const bool left_over = known.live && (known.queued() || known.unwritten());
    if (left_over && outcome.waits == Waits::kAllowance) {
      put_off(segment);
    } else if (left_over && (known.queued() || outcome.waits != Waits::kContinuation)) {
      backlog_.wait(segment, outcome.waits);
    }
  }
  hand_on(segment);
  settle(segment);
  room_.trim();
}

// As long as RAM has it.
void WriteBack::hand_on(SegmentId segment) {
  further_.offer(segment);
  if (publishing_ != nullptr) publishing_->offer(segment);
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
