#include "store/space_ledger.h"

#include "base/assert.h"
#include "store/mutations.h"

namespace kvkeep::store {

void SpaceLedger::add_existing(ByteCount bytes) {
  const MutexLock lock(mutex_);
  used_ += bytes;
}

bool SpaceLedger::reserve(ByteCount bytes) {
  const MutexLock lock(mutex_);
  const ByteCount taken = used_ + pending_;
  if (taken > budget_ || bytes > budget_ - taken) return false;
  used_ += bytes;
  return true;
}

void SpaceLedger::cancel(ByteCount bytes) {
  const MutexLock lock(mutex_);
  KVKEEP_ASSERT(bytes <= used_, "only what was counted can be given back");
  used_ -= bytes;
}

void SpaceLedger::release(const std::string& directory, ByteCount bytes) {
  const MutexLock lock(mutex_);
  KVKEEP_ASSERT(bytes <= used_, "only what was counted can be given back");
  used_ -= bytes;
  if (mutations().release_before_sync) return;
  pending_ += bytes;
  unsynced_.insert(directory);
}

void SpaceLedger::note_unsynced(const std::string& directory) {
  const MutexLock lock(mutex_);
  unsynced_.insert(directory);
}

void SpaceLedger::directory_synced(const std::string& directory) {
  const MutexLock lock(mutex_);
  unsynced_.erase(directory);
  if (unsynced_.empty()) pending_ = ByteCount{0};
}

std::vector<std::string> SpaceLedger::unsynced() const {
  const MutexLock lock(mutex_);
  return {unsynced_.begin(), unsynced_.end()};
}

ByteCount SpaceLedger::used() const {
  const MutexLock lock(mutex_);
  return used_;
}

}  // namespace kvkeep::store
