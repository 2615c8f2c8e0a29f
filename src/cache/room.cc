#include "cache/room.h"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace kvkeep::cache {

namespace {

// RAM is trimmed below its budget by this share, so that not every new segment pays for a decision.
constexpr std::uint64_t kTrimShare = 16;
// When points exceed their share of the disk, they leave until they are this part below it, so not every new one pays.
constexpr std::uint64_t kPointsSlackShare = 64;
// Extra room made on disk, so that eviction runs once for many segments.
constexpr std::uint64_t kDiskSlackShare = 64;

double mebibytes_of(ByteCount bytes) { return static_cast<double>(bytes.value()) / (1 << 20); }

}  // namespace

// ---- RAM ----

ByteCount RamRoom::limit() const {
  if (!has_disk_) return ram_.budget();
  return std::max(ram_.budget(), kMinimumWriteQueue + largest_point_ + largest_point_);
}

ByteCount RamRoom::write_queue_limit() const {
  if (write_queue_ > ByteCount{}) return write_queue_;
  const ByteCount least = kMinimumWriteQueue + largest_point_ + largest_point_;
  return std::min(limit(), std::max(ByteCount{limit().value() / 2}, least));
}

bool RamRoom::make(std::size_t size_bytes) {
  ByteCount most;
  {
    CacheLock lock(mutex_);
    if (has(size_bytes)) return true;
    most = limit();
  }
  make_within(most, ByteCount{size_bytes});
  CacheLock lock(mutex_);
  return has(size_bytes);
}

void RamRoom::trim() {
  if (ram_.used() > ram_.budget()) make_within(ram_.budget(), ByteCount{});
}

bool RamRoom::spare(ByteCount size) {
  if (size > ram_.budget()) return false;
  if (ram_.used() + size > ram_.budget()) ram_.drop_decoded(ram_.budget() - size);
  return ram_.used() + size <= ram_.budget();
}

// Evicts payloads until `room` is free, and a share of `limit` more for later segments, as far as any may leave. Memory
// only, and rarely: each time makes room for many segments.
void RamRoom::make_within(ByteCount limit, ByteCount room) {
  const ByteCount kept_free{std::min(limit.value(), std::max(room.value(), limit.value() / kTrimShare))};
  const ByteCount target = limit - kept_free;
  const ByteCount most = limit - std::min(limit, room);
  ByteCount used;
  {
    CacheLock lock(mutex_);
    ram_.drop_decoded(target);
    used = ram_.used();
  }
  if (used <= target) return;
  const ByteCount least = used - std::min(used, most);
  (void)evictor_.make_room({.bytes = used - target, .least = least});
}

// ---- disk ----

ByteCount DiskRoom::slack() const { return ByteCount{disk_.budget().value() / kDiskSlackShare}; }

// Asks for used() once: a reader may drop damaged segments at any moment.
ByteCount DiskRoom::over_budget() const {
  const ByteCount used = disk_.used();
  return used > disk_.budget() ? used - disk_.budget() : ByteCount{};
}

bool DiskRoom::evict(ByteCount needed, bool points_only) {
  const ByteCount used_before = disk_.used();
  const Evictor::Freed freed = evictor_.make_room({.bytes = needed, .least = needed, .points_only = points_only});
  if (freed.count > 0) {
    spdlog::info("kv cache evicted segments={} from=disk used={:.1f} MiB before={:.1f} MiB budget={:.1f} MiB",
                 freed.count, mebibytes_of(disk_.used()), mebibytes_of(used_before), mebibytes_of(disk_.budget()));
  }
  return freed.count > 0;
}

// Frees about `needed` bytes of the directory's files that are not this cache's.
ByteCount DiskRoom::evict_foreign(ByteCount needed, store::Kept kept) {
  const ByteCount freed = disk_.store().remove_foreign(needed, kept);
  if (freed > ByteCount{}) {
    spdlog::info("kv cache evicted {:.1f} MiB of other models or settings from disk used={:.1f} MiB budget={:.1f} MiB",
                 mebibytes_of(freed), mebibytes_of(disk_.used()), mebibytes_of(disk_.budget()));
  }
  return freed;
}

void DiskRoom::fit() {
  (void)make_points_room({});
  if (!disk_.store().keeper()) return;
  // Other servers of this model stored so many files that the next start would leave some out.
  if (disk_.store().has_most_files()) evict(slack());
  ByteCount over = over_budget();
  if (over == ByteCount{} || evict_foreign(over, store::Kept::kSpare) >= over) return;
  over = over_budget();
  if (over > ByteCount{}) evict(over);
  over = over_budget();
  if (over > ByteCount{}) evict_foreign(over, store::Kept::kTake);
}

// State of other models and settings leaves first while it holds more than half, so that a user who changes between two
// models keeps something of each. Its pinned and kept prefixes leave last as well, as far as they are at most half.
bool DiskRoom::make(ByteCount needed) {
  const auto foreign_prevails = [this] { return disk_.store().foreign_bytes().value() > disk_.budget().value() / 2; };
  if (!foreign_prevails()) return evict(needed) || evict_foreign(needed, store::Kept::kTake) > ByteCount{};
  ByteCount freed = evict_foreign(needed, store::Kept::kSpare);
  if (freed < needed && foreign_prevails()) freed += evict_foreign(needed - freed, store::Kept::kTake);
  return freed >= needed || evict(needed - freed);
}

// Points, whole states and windows have a share of the disk: above it they leave, whatever rows are worth. Returns
// false if they would exceed it with such a file.
bool DiskRoom::make_points_room(ByteCount file) {
  if (points_share_ >= 100) return true;
  const ByteCount room{disk_.budget().value() / 100 * points_share_};
  if (file > room) return false;
  const auto used = [this] {
    CacheLock lock(mutex_);
    return table_.sums().points(kDiskTier);
  };
  if (const ByteCount with = used() + file; with > room && disk_.store().keeper())
    evict(with - room + ByteCount{room.value() / kPointsSlackShare}, true);
  return used() + file <= room;
}

Status DiskRoom::put(const TierItem& item, const TierPort::Bytes& bytes) {
  store::DiskStore& store = disk_.store();
  const ByteCount file = os::physical_size(ByteCount{format::file_bytes(item.header)});
  // It would not fit even if everything left.
  if (file > disk_.budget()) return no_space("a state is larger than the disk budget (see --kv-disk-space-mb)");
  // A full file system would not take the file, so no point leaves for it.
  if (item.header.name.kind != format::PartKind::kRows && !store.stopped() && !make_points_room(file))
    return no_space("points and windows fill their share of the disk (see --kv-disk-points-share)");
  // The next start would leave some files out.
  if (store.has_most_files() && store.keeper() && !evict(slack()))
    return no_space("the directory has as many files of this model as a server serves, and none may be evicted");
  Status written = disk_.put(item, bytes);
  const bool no_room = !written && written.error().kind == ErrorKind::kNoSpace;
  if (!no_room || store.stopped() || !store.keeper()) return written;
  if (!make(file + slack() + over_budget())) return written;
  return disk_.put(item, bytes);
}

}  // namespace kvkeep::cache
