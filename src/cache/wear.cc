// A day's writing, which the store counts: where it is limited, what of the queue goes to disk and what waits in RAM,
// until somebody continues it or comes back to it, or until there is enough again. What waits may be forgotten like all
// else that RAM alone has; nothing on disk hangs below it. Runs on the writer executor.

#include <spdlog/spdlog.h>

#include <algorithm>
#include <bit>

#include "cache/cache.h"
#include "policy/admit.h"

namespace kvkeep::cache {

namespace {

// Offered again at once.
constexpr std::size_t kOfferedAtOnce = 64;

}  // namespace

// `path` is what is not on disk of the path to `segment`, from the root; not empty.
policy::WriteOffer Cache::write_offer(SegmentId segment, const std::vector<SegmentId>& path) const {
  policy::WriteOffer offer;
  const std::int64_t now_ns = clock_.wall_ns();
  for (const SegmentId unwritten : path) {
    const Entry& known = entry(unwritten);
    offer.bytes += file_size(unwritten);
    offer.returns = std::max<double>(offer.returns, known.hits);
    offer.kept |= known.kept_until_ns > now_ns;
  }
  const index::SegmentInfo& first = index_.info(path.front());
  if (first.parent != kRootSegment) {
    const double branches = static_cast<double>(std::max<std::size_t>(1, index_.info(first.parent).children));
    offer.returns = std::max(offer.returns, entry(first.parent).hits / branches);
  }
  offer.begin = is_leaf(entry(segment)) ? stop_before(segment) : first.range.begin;
  offer.tokens = static_cast<std::uint32_t>(index_.info(segment).range.end - offer.begin);
  return offer;
}

// The last place before the leaf's end where one of its kind on its path ends that is on disk; 0: none.
Position Cache::stop_before(SegmentId leaf) const {
  const index::SegmentInfo& own = index_.info(leaf);
  for (SegmentId within = own.parent; within != kRootSegment; within = index_.info(within).parent) {
    Position last;
    for (const SegmentId other : index_.attached(within)) {
      const index::SegmentInfo& info = index_.info(other);
      const bool before = info.kind == own.kind && info.range.end < own.range.end;
      if (before && entry(other).disk == DiskState::kOnDisk) last = std::max(last, info.range.end);
    }
    if (last > Position{}) return last;
  }
  return {};
}

// Whether the path to a segment is worth a share of what may be written today; else it waits.
bool Cache::spares_writes_for(SegmentId segment, const std::vector<SegmentId>& path) {
  if (path.empty()) return true;
  const auto allowance = disk_->writes();
  if (!allowance) return true;
  MutexLock lock(mutex_);
  // Forgotten meanwhile: not written, in its turn.
  for (const SegmentId unwritten : path) {
    if (!entry(unwritten).live) return true;
  }
  const policy::WriteOffer offer = write_offer(segment, path);
  policy::AdmitView view{.left = allowance->left, .most = allowance->most, .usual_worth = usual_worth_};
  view.usual_worth = usual_worth_ = policy::next_usual_worth(view, offer);
  if (policy::admits(view, offer)) return true;
  put_off(segment);
  return false;
}

// A path is written file by file: what comes after the one that took the last of the allowance waits.
bool Cache::may_write_more(SegmentId segment) {
  const auto allowance = disk_->writes();
  if (!allowance || allowance->left > ByteCount{}) return true;
  MutexLock lock(mutex_);
  put_off(segment);
  return false;
}

void Cache::put_off(SegmentId segment) {
  if (put_off_.size() >= options_.most_waiting) put_off_.pop_front();
  put_off_.push_back({segment, entry(segment).serial, entry(segment).charged});
  if (std::has_single_bit(++counters_.put_off))  // the first, and then ever fewer
    spdlog::info(
        "kv disk: little is left of what may be written today (--kv-disk-write-mb-per-day): {} times so far something "
        "waited in memory alone",
        counters_.put_off);
}

// Somebody came back to it.
void Cache::offer_again(SegmentId segment) {
  const Entry& known = entry(segment);
  const bool waits = known.disk == DiskState::kUnwritten && known.payload != nullptr && !known.dead;
  if (limits_writes_ && waits && queued_bytes_ + known.charged <= write_queue_limit()) queue_write(segment);
}

// There is enough for all.
void Cache::offer_put_off() {
  const auto allowance = disk_->writes();
  if (!allowance || allowance->left.value() < allowance->most.value() / 2) return;
  MutexLock lock(mutex_);
  for (std::size_t offered = 0; offered < kOfferedAtOnce && !put_off_.empty(); ++offered) {
    if (closing_ || queued_bytes_.value() >= write_queue_limit().value() / 2) break;
    const Waiting next = put_off_.front();
    put_off_.pop_front();
    (void)queue_unwritten(next.segment, next.serial);
  }
}

}  // namespace kvkeep::cache
