// What lies in the directory, looked at again beside other servers: what came, what left, what was used.

#include <unordered_map>
#include <utility>

#include "store/disk_store_impl.h"
#include "store/mutations.h"
#include "store/segment_io.h"

namespace kvkeep::store {

Result<DiskStore::Impl::Survey> DiskStore::Impl::survey() {
  Survey found;
  TRY_ASSIGN(found.root, scan_root(files_, layout_));
  TRY_ASSIGN(found.own, files_.list(layout_.own));
  for (const std::string& directory : found.root.other_fingerprints) {
    auto listed = files_.list(directory);
    if (listed) {
      found.foreign.emplace_back(directory, std::move(*listed));
    } else if (listed.error().kind == ErrorKind::kIo) {
      return listed.error();
    }
  }
  return found;
}

void DiskStore::Impl::merge(const Survey& found, DiskTick& tick) {
  std::vector<std::pair<std::string, os::FileInfo>> unfinished;  // swept when everything is counted
  for (const auto& [directory, listed] : found.foreign) {
    for (os::FileInfo& info : merge_foreign(directory, listed)) unfinished.emplace_back(directory, std::move(info));
  }
  for (os::FileInfo& info : merge_own(found.own, tick)) unfinished.emplace_back(layout_.own, std::move(info));
  for (const auto& [directory, info] : unfinished) ledger_.add_existing(os::physical_size(info.size));
  for (const auto& [directory, info] : unfinished) {
    unserved_.discard(directory + "/" + info.name, os::physical_size(info.size));
  }
  count([&](DiskCounters& counters) { counters.temporaries += unfinished.size(); });
}

// A file that could not be unlinked was counted when that failed, in whosever directory it lies.
bool DiskStore::Impl::counted_leftover(const std::string& path) const {
  return unserved_.is_leftover(path) && !mutations().count_leftovers_twice;
}

// Returns what nobody goes on with.
std::vector<os::FileInfo> DiskStore::Impl::merge_foreign(const std::string& directory,
                                                         const std::vector<os::FileInfo>& listed) {
  std::vector<os::FileInfo> counted;
  std::vector<os::FileInfo> unfinished;
  for (const os::FileInfo& info : listed) {
    if (!info.is_regular || counted_leftover(directory + "/" + info.name)) continue;
    if (is_temporary_name(info.name) && !is_busy(info)) {
      unfinished.push_back(info);
    } else if (is_temporary_name(info.name) || is_segment_name(info.name) || info.name == kIndexName) {
      counted.push_back(info);
    }
  }
  unserved_.update(directory, counted,
                   [this](const os::FileInfo& info) NO_THREAD_SAFETY_ANALYSIS { return is_busy(info); });
  return unfinished;
}

// The keeper counts every file; a member looks for segments alone. Returns what nobody goes on with.
std::vector<os::FileInfo> DiskStore::Impl::merge_own(const std::vector<os::FileInfo>& listed, DiskTick& tick) {
  compare_with(listed, tick);
  tick.looked = true;
  std::vector<os::FileInfo> unserved;
  std::vector<os::FileInfo> unfinished;
  ByteCount index_bytes;
  for (const os::FileInfo& info : listed) {
    if (!info.is_regular || counted_leftover(path_of(info.name))) continue;
    const bool temporary = is_temporary_name(info.name);
    if (is_segment_name(info.name)) {
      if (generation_of(info.name)) continue;
      if (!unserved_.knows(path_of(info.name))) merge_segment(info);
      if (unserved_.knows(path_of(info.name))) unserved.push_back(info);
    } else if (temporary && is_busy(info)) {
      unserved.push_back(info);
    } else if (temporary) {
      unfinished.push_back(info);
    } else if (info.name == kIndexName) {
      index_bytes = os::physical_size(info.size);
    }
  }
  merge_index(index_bytes);
  unserved_.update(layout_.own, unserved,
                   [this](const os::FileInfo& info) NO_THREAD_SAFETY_ANALYSIS { return is_busy(info); });
  return unfinished;
}

// What was removed, or replaced by a file of another size; and what has another time: its use told another server.
void DiskStore::Impl::compare_with(const std::vector<os::FileInfo>& listed, DiskTick& tick) {
  std::unordered_map<std::string, const os::FileInfo*> there;
  for (const os::FileInfo& info : listed) {
    if (info.is_regular) there.emplace(info.name, &info);
  }
  const MutexLock lock(mutex_);
  for (auto it = entries_.begin(); it != entries_.end();) {
    Entry& entry = it->second;
    const auto found = there.find(it->first);
    if (found == there.end() || found->second->size.value() != entry.size_bytes) {
      ledger_.release(layout_.own, entry.physical());
      tick.gone.push_back(entry.name);
      index_is_current_ = false;
      it = entries_.erase(it);
      continue;
    }
    if (found->second->modified_ns != entry.modified_ns) {
      entry.modified_ns = found->second->modified_ns;
      tick.used.push_back({entry.name, entry.modified_ns});
      index_is_current_ = false;
    }
    ++it;
  }
}

bool DiskStore::Impl::has_most_files() const {
  const MutexLock lock(mutex_);
  return entries_.size() >= options_.most_files;
}

// Another server of this fingerprint may have saved it, and one of another may have removed it for its room: 0 bytes.
void DiskStore::Impl::merge_index(ByteCount bytes) {
  if (bytes == index_bytes_) return;
  ledger_.add_existing(bytes);
  if (index_bytes_ > ByteCount{}) ledger_.release(layout_.own, index_bytes_);
  index_bytes_ = bytes;
}

void DiskStore::Impl::merge_segment(const os::FileInfo& info) {
  const ByteCount bytes = os::physical_size(info.size);
  auto header = read_header(files_, layout_.own, info, options_.fingerprint);
  if (header && !has_most_files()) return adopt_segment({info, std::move(*header), {}});
  ledger_.add_existing(bytes);
  if (header) {
    unserved_.add_removable(path_of(info.name), bytes, info.modified_ns);
  } else if (header.error().kind == ErrorKind::kNotFound) {
    ledger_.release(layout_.own, bytes);  // it may still come back
  } else if (header.error().kind == ErrorKind::kDamaged && keeper_) {
    count([](DiskCounters& counters) { ++counters.damaged; });
    quarantine_.take(path_of(info.name), bytes);
  } else {
    unserved_.add_removable(path_of(info.name), bytes, info.modified_ns);
  }
}

}  // namespace kvkeep::store
