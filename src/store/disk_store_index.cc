// Writing the saved index: advice that makes the next start quick, and never more than there is room for.

#include <utility>

#include "format/saved_index.h"
#include "store/disk_store_impl.h"

namespace kvkeep::store {

std::vector<std::byte> DiskStore::Impl::encode_index() const {
  const MutexLock lock(mutex_);
  std::vector<format::EncodedIndexEntry> listed;
  listed.reserve(entries_.size());
  for (const auto& [name, entry] : entries_) listed.push_back({entry.size_bytes, entry.modified_ns, entry.header});
  return format::encode_index(listed);
}

void DiskStore::Impl::save_index() {
  if (!notes_) return;
  const MutexLock lock(write_mutex_);
  if (!opened_ || !in_place()) return;
  {
    const MutexLock state_lock(mutex_);
    if (std::exchange(index_is_current_, true)) return;
  }
  if (write_index()) return;
  const MutexLock state_lock(mutex_);
  index_is_current_ = false;
}

// False: it is not on disk.
bool DiskStore::Impl::write_index() {
  const std::vector<std::byte> bytes = encode_index();
  const ByteCount physical = os::physical_size(ByteCount{bytes.size()});
  // The budget is for segments, and so is what may be written in a day.
  if (write_budget_.limited() && write_budget_.allowance().left < physical) return false;
  if (bytes.size() > format::kMaxIndexBytes || !free_space_.admits(physical) || !ledger_.reserve(physical))
    return false;
  const std::string temporary = temporary_path();
  if (!write_temporary(temporary, bytes, {}, physical)) return false;
  if (!files_.rename(temporary, layout_.index)) {
    unserved_.discard(temporary, physical);
    return false;
  }
  unserved_.replaced(layout_.index);
  ledger_.release(layout_.own, std::exchange(index_bytes_, physical));
  return true;
}

}  // namespace kvkeep::store
