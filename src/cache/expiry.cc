// A time to live (CacheOptions::time_to_live_ns): what nobody used for so long leaves disk and RAM, leaves first, in
// small portions on the writer. Where several servers use a directory, the one that keeps its budget removes files.

#include <spdlog/spdlog.h>

#include <algorithm>

#include "cache/cache.h"
#include "policy/expire.h"

namespace kvkeep::cache {

namespace {

// Of one portion: looked at, and gone.
constexpr std::size_t kLookedAtOnce = 4096;
constexpr std::size_t kExpiredAtOnce = 256;
// Of files of other models.
constexpr std::int64_t kLooksInALife = 16;
constexpr std::int64_t kLongestPauseNs = 3600LL * 1'000'000'000;

}  // namespace

// Files of other models: no server's index knows them, so the directory's keeper looks at their times now and then.
void Cache::expire_foreign() {
  if (disk_ == nullptr || options_.time_to_live_ns <= 0 || !disk_->keeper()) return;
  const std::int64_t now_ns = clock_.wall_ns();
  const std::int64_t pause_ns = std::min(kLongestPauseNs, options_.time_to_live_ns / kLooksInALife);
  if (foreign_expired_ns_ && now_ns - *foreign_expired_ns_ < pause_ns && now_ns >= *foreign_expired_ns_) return;
  foreign_expired_ns_ = now_ns;
  const ByteCount freed = disk_->expire_foreign(now_ns - options_.time_to_live_ns);
  if (freed == ByteCount{}) return;
  spdlog::info(
      "kv cache: {:.1f} MiB of other models or settings left the disk: unused for longer than "
      "--kv-cache-ttl-hours",
      static_cast<double>(freed.value()) / (1 << 20));
}

// At the start everything is looked at, portion by portion; what else the writer has to do comes between.
void Cache::expire_all() {
  const bool more = expire_portion();
  MutexLock lock(mutex_);
  if (more && !closing_) writer_.post([this] { expire_all(); });
}

// False: that was the last one of a round.
bool Cache::expire_portion() {
  if (options_.time_to_live_ns <= 0) return false;
  std::vector<SegmentId> leaves;
  {
    MutexLock lock(mutex_);
    for (std::size_t looked = 0; looked < kLookedAtOnce && leaves.size() < kExpiredAtOnce; ++looked) {
      if (++expiry_at_ >= entries_.size()) break;
      if (may_expire(SegmentId{expiry_at_})) leaves.push_back(SegmentId{expiry_at_});
    }
    if (expiry_at_ >= entries_.size()) expiry_at_ = 0;
  }
  for (const SegmentId leaf : leaves) {
    // What it hung below may be a leaf now.
    for (SegmentId next = leaf; next != kRootSegment;) {
      const std::optional<SegmentId> above = expire(next);
      if (!above) break;
      next = *above;
    }
  }
  MutexLock lock(mutex_);
  return expiry_at_ > 0;
}

bool Cache::may_expire(SegmentId segment) const {
  const Entry& known = entry(segment);
  if (!known.live || in_use(known) || known.disk == DiskState::kWaiting) return false;
  if (known.disk == DiskState::kOnDisk && !disk_->keeper()) return false;
  if (index_.info(segment).children > 0 || !built_on(segment).empty()) return false;
  return policy::expired({known.last_used_ns, known.kept_until_ns}, clock_.wall_ns(), options_.time_to_live_ns);
}

// What it hung below; none: it stays.
std::optional<SegmentId> Cache::expire(SegmentId segment) {
  SegmentId above;
  std::uint64_t serial = 0;
  bool on_disk = false;
  {
    MutexLock lock(mutex_);
    if (!may_expire(segment)) return std::nullopt;
    above = index_.info(segment).parent;
    serial = entry(segment).serial;
    on_disk = entry(segment).disk == DiskState::kOnDisk;
  }
  if (on_disk && !remove_from_disk(segment)) return std::nullopt;
  MutexLock lock(mutex_);
  const Entry& left = entry(segment);
  if (left.live && left.serial == serial) {
    if (!may_expire(segment) || left.disk == DiskState::kOnDisk) return std::nullopt;
    erase(segment);
  }
  ++counters_.expired;
  return above;
}

}  // namespace kvkeep::cache
