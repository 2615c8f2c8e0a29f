// What the audit needs: something stored to look at, and a way to be rid of all of it.

#include <spdlog/spdlog.h>

#include <utility>

#include "cache/cache.h"

namespace kvkeep::cache {

std::optional<StoredPath> Cache::random_path(std::uint64_t random) const {
  if (distrusted_) return std::nullopt;
  MutexLock lock(mutex_);
  std::vector<SegmentId> on_disk;
  std::vector<SegmentId> in_ram;
  for (std::size_t i = 1; i < entries_.size(); ++i) {
    const SegmentId segment{static_cast<std::uint32_t>(i)};
    const Entry& known = entry(segment);
    if (!available(known)) continue;
    (known.payload == nullptr && known.state == nullptr ? on_disk : in_ram).push_back(segment);
  }
  const std::vector<SegmentId>& among = on_disk.empty() ? in_ram : on_disk;
  if (among.empty()) return std::nullopt;
  const SegmentId chosen = among[random % among.size()];
  const index::SegmentInfo& info = index_.info(chosen);
  const Position begin = is_leaf(entry(chosen)) ? index_.info(info.parent).range.begin : info.range.begin;
  const index::Cursor end{is_leaf(entry(chosen)) ? info.parent : chosen, info.range.end};
  return StoredPath{index_.path_tokens(end), index_.tenant(chosen), begin};
}

void Cache::distrust(const std::string& why) {
  if (distrusted_.exchange(true) || disk_ == nullptr) return;
  writer_.post([this, why] {
    unnoted_distrust_ = why;
    note_distrust();
  });
}

// Tried again with each tick: a disk may be full or read-only for a while.
void Cache::note_distrust() {
  if (unnoted_distrust_.empty()) return;
  const Status noted = disk_->distrust(unnoted_distrust_);
  if (noted) return unnoted_distrust_.clear();
  if (!std::exchange(said_unnoted_, true))
    spdlog::error("kv disk: could not note that what is stored is wrong, later starts would use it: {}",
                  noted.error().message);
}

// What another server of this directory found: it may be gone by now, so that nobody else is there any more.
void Cache::heed_distrust() {
  if (distrusted_) return;
  const Result<std::optional<std::string>> why = disk_->distrusted();
  if (!why || !*why) return;
  distrusted_ = true;
  spdlog::error(
      "kv disk: another server found that what is stored for this model is WRONG ({}): nothing of it is used any more, "
      "and nothing is stored. See docs/audit.md",
      **why);
}

}  // namespace kvkeep::cache
