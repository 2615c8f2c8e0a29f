#include "store/quarantine.h"

#include <algorithm>
#include <utility>

#include "store/layout.h"

namespace kvkeep::store {
namespace {

constexpr std::size_t kMaxHeldFiles = 8;
constexpr std::uint64_t kBudgetShare = 20;  // at most a twentieth of the budget

}  // namespace

Quarantine::Quarantine(std::string directory, ByteCount budget, os::FileSystem& files, os::Clock& clock,
                       SpaceLedger& ledger, UnservedFiles& unserved)
    : directory_(std::move(directory)),
      limit_(budget.value() / kBudgetShare),
      files_(files),
      clock_(clock),
      ledger_(ledger),
      unserved_(unserved) {}

Status Quarantine::open() {
  held_.clear();
  held_bytes_ = ByteCount{};
  usable_ = files_.make_directories(directory_).ok();
  auto listed = files_.list(directory_);
  if (!listed) {
    usable_ = false;  // missing, or a link: no file of the store's to count
    if (listed.error().kind == ErrorKind::kIo) return listed.error();
    return {};
  }
  std::ranges::sort(*listed, {}, [](const os::FileInfo& info) { return std::pair(info.modified_ns, info.name); });
  for (const os::FileInfo& info : *listed) {
    if (!info.is_regular) continue;
    const ByteCount bytes = os::physical_size(info.size);
    ledger_.add_existing(bytes);
    held_bytes_ += bytes;
    held_.push_back({directory_ + "/" + info.name, bytes});
  }
  prune();
  return {};
}

void Quarantine::take(const std::string& path, ByteCount bytes) {
  // The time keeps names apart over the life of the directory, the number within one nanosecond.
  const std::string target = directory_ + "/" + path.substr(path.find_last_of('/') + 1) + "." +
                             std::to_string(clock_.wall_ns()) + "." + std::to_string(++taken_);
  if (!usable_ || !files_.rename(path, target)) {
    unserved_.discard(path, bytes);
    return;
  }
  ledger_.note_unsynced(directory_of(path));
  ledger_.note_unsynced(directory_);
  held_bytes_ += bytes;
  held_.push_back({target, bytes});
  prune();
}

ByteCount Quarantine::give_up(ByteCount needed) {
  ByteCount freed;
  while (freed < needed && !held_.empty()) {
    freed += held_.front().bytes;
    drop_oldest();
  }
  return freed;
}

void Quarantine::prune() {
  while (!held_.empty() && (held_.size() > kMaxHeldFiles || held_bytes_ > limit_)) drop_oldest();
}

void Quarantine::drop_oldest() {
  const Held oldest = std::move(held_.front());
  held_.pop_front();
  held_bytes_ -= oldest.bytes;
  unserved_.discard(oldest.path, oldest.bytes);
}

}  // namespace kvkeep::store
