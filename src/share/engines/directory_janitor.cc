#include "share/engines/directory_janitor.h"

#include <algorithm>
#include <utility>

#include "share/recent_names.h"

namespace kvkeep::share {
namespace {

constexpr std::int64_t kSweepEveryNs = 60 * kSecondNs;
// A file may be used after it was listed. What was seen longer ago is listed anew before anything is removed by it.
constexpr std::int64_t kLongestSweepNs = 300 * kSecondNs;
constexpr std::int64_t kTemporaryNs = 3600 * kSecondNs;  // one that is older belongs to a server that died

std::vector<os::FileInfo> list_or_nothing(os::FileSystem& files, const std::string& directory) {
  auto listed = files.list(directory);
  return listed.ok() ? std::move(*listed) : std::vector<os::FileInfo>{};
}

}  // namespace

std::vector<std::string> object_folders(os::FileSystem& files, const std::string& root) {
  std::vector<std::string> folders;
  for (const os::FileInfo& space : list_or_nothing(files, root)) {
    if (!space.is_directory) continue;
    for (const os::FileInfo& folder : list_or_nothing(files, root + '/' + space.name)) {
      if (folder.is_directory) folders.push_back(root + '/' + space.name + '/' + folder.name);
    }
  }
  return folders;
}

void add_files(os::FileSystem& files, const std::string& folder, std::vector<StoredFile>& stored) {
  for (const os::FileInfo& file : list_or_nothing(files, folder)) {
    if (file.is_regular) stored.push_back({folder + '/' + file.name, file.size, file.modified_ns});
  }
}

ByteCount DirectoryJanitor::limit(ByteCount used) const {
  if (limit_) return *limit_;
  const auto space = files_.space(root_);
  if (!space.ok()) return used;
  return ByteCount{(used.value() + space->free.value()) / 2};
}

bool DirectoryJanitor::has_work() const {
  const MutexLock lock(mutex_);
  return sweep_ || !begun_ns_ || clock_.monotonic_ns() >= *begun_ns_ + kSweepEveryNs;
}

void DirectoryJanitor::go_on(std::int64_t ttl_s, std::int64_t until_ns) {
  const MutexLock lock(mutex_);
  const std::int64_t now_ns = clock_.monotonic_ns();
  if (sweep_ && now_ns >= *begun_ns_ + kLongestSweepNs) sweep_.reset();
  if (!sweep_ && begun_ns_ && now_ns < *begun_ns_ + kSweepEveryNs) return;
  if (!sweep_) begin();
  while (sweep_) {
    if (!step(ttl_s)) sweep_.reset();
    if (clock_.monotonic_ns() >= until_ns) return;
  }
}

// Nothing begins if another server sweeps, or the file system has no locks.
void DirectoryJanitor::begin() {
  begun_ns_ = clock_.monotonic_ns();
  auto lock = files_.lock(root_ + "/janitor");
  if (lock.ok()) sweep_ = Sweep{.lock = std::move(*lock), .folders = object_folders(files_, root_)};
}

void DirectoryJanitor::sort() {
  std::ranges::sort(sweep_->stored, {}, &StoredFile::used_ns);
  for (const StoredFile& file : sweep_->stored) sweep_->used += file.size;
  sweep_->most = limit(sweep_->used);
  sweep_->sorted = true;
}

bool DirectoryJanitor::step(std::int64_t ttl_s) {
  Sweep& sweep = *sweep_;
  if (!sweep.folders.empty()) {
    add_files(files_, sweep.folders.back(), sweep.stored);
    sweep.folders.pop_back();
    return true;
  }
  if (!sweep.sorted) sort();
  const std::int64_t now_ns = clock_.wall_ns();
  const auto leaves = [&](const StoredFile& file) {
    const std::int64_t lives_ns = file.path.ends_with(kTemporarySuffix) ? kTemporaryNs : ttl_s * kSecondNs;
    return sweep.used > sweep.most || file.used_ns + lives_ns <= now_ns;
  };
  const auto rest = sweep.stored.begin() + static_cast<std::ptrdiff_t>(sweep.next);
  const auto file = std::find_if(rest, sweep.stored.end(), leaves);
  if (file == sweep.stored.end()) return false;
  sweep.next = static_cast<std::size_t>(file - sweep.stored.begin()) + 1;
  if (files_.remove(file->path).ok()) sweep.used = sweep.used - file->size;
  return true;
}

}  // namespace kvkeep::share
