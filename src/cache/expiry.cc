#include "cache/expiry.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "policy/evict_candidate.h"

namespace kvkeep::cache {

namespace {

// Limits of one portion: segments looked at, and segments forgotten.
constexpr std::size_t kLookedAtOnce = 4096;
constexpr std::size_t kExpiredAtOnce = 256;
// How often files of other models are looked at.
constexpr std::int64_t kLooksInALife = 16;
constexpr std::int64_t kLongestPauseNs = 3600LL * 1'000'000'000;

}  // namespace

void Expiry::expire_foreign() {
  if (disk_ == nullptr || !wanted() || !disk_->store().keeper()) return;
  const std::int64_t now_ns = clock_.wall_ns();
  const std::int64_t pause_ns = std::min(kLongestPauseNs, time_to_live_ns_ / kLooksInALife);
  if (foreign_looked_ns_ && now_ns - *foreign_looked_ns_ < pause_ns && now_ns >= *foreign_looked_ns_) return;
  foreign_looked_ns_ = now_ns;
  const ByteCount freed = disk_->store().expire_foreign(now_ns - time_to_live_ns_);
  if (freed == ByteCount{}) return;
  spdlog::info(
      "kv cache: removed {:.1f} MiB of other models or settings from disk: unused for longer than "
      "--kv-cache-ttl-hours",
      static_cast<double>(freed.value()) / (1 << 20));
}

bool Expiry::next_portion() {
  if (!wanted()) return false;
  std::vector<SegmentId> ends;
  {
    CacheLock lock(mutex_);
    for (std::size_t looked = 0; looked < kLookedAtOnce && ends.size() < kExpiredAtOnce; ++looked) {
      looked_at_ = SegmentId{looked_at_.value() + 1};
      if (looked_at_ >= table_.end()) break;
      if (may_expire(looked_at_)) ends.push_back(looked_at_);
    }
    if (looked_at_ >= table_.end()) looked_at_ = kRootSegment;
  }
  for (const SegmentId end : ends) {
    // Its parent may be an end now.
    for (SegmentId next = end; next != kRootSegment;) {
      const std::optional<SegmentId> above = expire(next);
      if (!above) break;
      next = *above;
    }
  }
  CacheLock lock(mutex_);
  return looked_at_ != kRootSegment;
}

bool Expiry::may_expire(SegmentId segment) const {
  const Entry& known = table_.entry(segment);
  if (!known.live || known.needs_its_path()) return false;
  if (known.on_disk() && !disk_->store().keeper()) return false;
  if (!table_.nothing_below(segment)) return false;
  return policy::expired({known.last_used_ns, known.kept_until_ns}, clock_.wall_ns(), time_to_live_ns_);
}

// Returns its parent, or nullopt if it stays.
std::optional<SegmentId> Expiry::expire(SegmentId segment) {
  SegmentId above;
  std::uint64_t serial = 0;
  bool on_disk = false;
  {
    CacheLock lock(mutex_);
    if (!may_expire(segment)) return std::nullopt;
    above = table_.info(segment).parent;
    serial = table_.entry(segment).serial;
    on_disk = table_.entry(segment).on_disk();
  }
  if (on_disk && !disk_evictor_->evict(segment, EvictCause::kExpired)) return std::nullopt;
  CacheLock lock(mutex_);
  const Entry& left = table_.entry(segment);
  if (left.live && left.serial == serial) {
    if (!may_expire(segment) || left.on_disk()) return std::nullopt;
    forgetting_.erase(segment, explain::LossCause::kExpired);
  }
  ++expired_;
  return above;
}

}  // namespace kvkeep::cache
