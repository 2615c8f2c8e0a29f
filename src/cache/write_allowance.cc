#include "cache/write_allowance.h"

#include <spdlog/spdlog.h>

#include <algorithm>

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

}  // namespace kvkeep::cache
