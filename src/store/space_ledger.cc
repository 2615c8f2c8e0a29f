#include "store/space_ledger.h"

#include <algorithm>

#include "base/assert.h"

namespace kvkeep::store {

void SpaceLedger::begin_recount() {
  const MutexLock lock(mutex_);
  used_ = counted_before_.value_or(used_ + pending_ + leased_);
  counted_before_ = used_;
  pending_ = leased_ = ByteCount{};
  unsynced_.clear();
  lease_left_.reset();
}

void SpaceLedger::end_recount() {
  const MutexLock lock(mutex_);
  KVKEEP_ASSERT(counted_before_ && *counted_before_ <= used_, "a recount adds to what was counted");
  used_ -= *counted_before_;
  counted_before_.reset();
}

void SpaceLedger::add_existing(ByteCount bytes) {
  const MutexLock lock(mutex_);
  used_ += bytes;
}

bool SpaceLedger::reserve(ByteCount bytes) {
  const MutexLock lock(mutex_);
  if (bytes > (lease_left_ ? *lease_left_ : room())) return false;
  used_ += bytes;
  drawn_ += bytes;
  if (lease_left_) *lease_left_ -= bytes;
  return true;
}

ByteCount SpaceLedger::room() const {
  const ByteCount taken = used_ + pending_ + leased_;
  return taken > budget_ ? ByteCount{} : budget_ - taken;
}

void SpaceLedger::cancel(ByteCount bytes) {
  const MutexLock lock(mutex_);
  KVKEEP_ASSERT(bytes <= used_, "only what was counted can be given back");
  used_ -= bytes;
  drawn_ -= bytes;
  if (lease_left_) *lease_left_ += bytes;
}

void SpaceLedger::release(const std::string& directory, ByteCount bytes) {
  const MutexLock lock(mutex_);
  KVKEEP_ASSERT(bytes <= used_, "only what was counted can be given back");
  used_ -= bytes;
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
  return used_ + leased_;
}

void SpaceLedger::keep_budget() {
  const MutexLock lock(mutex_);
  counted_before_.reset();
  used_ = pending_ = leased_ = ByteCount{};
  unsynced_.clear();
  lease_left_.reset();
}

void SpaceLedger::set_leased(ByteCount bytes) {
  const MutexLock lock(mutex_);
  leased_ = bytes;
}

ByteCount SpaceLedger::lease(ByteCount bytes) {
  const MutexLock lock(mutex_);
  const ByteCount given = std::min(bytes, room());
  leased_ += given;
  return given;
}

void SpaceLedger::draw_on_lease() {
  const MutexLock lock(mutex_);
  lease_left_ = ByteCount{};
}

void SpaceLedger::add_to_lease(ByteCount bytes) {
  const MutexLock lock(mutex_);
  if (lease_left_) *lease_left_ += bytes;
}

ByteCount SpaceLedger::lease_left() const {
  const MutexLock lock(mutex_);
  return lease_left_.value_or(ByteCount{});
}

ByteCount SpaceLedger::drawn() const {
  const MutexLock lock(mutex_);
  return drawn_;
}

Status Syncs::counted(Status status) {
  if (!status) counting_.add(&DiskCounters::sync_failures);
  return status;
}

Status Syncs::directory(const std::string& path) {
  TRY(counted(files_.sync_directory(path)));
  ledger_.directory_synced(path);
  return {};
}

Status Syncs::removals() {
  for (const std::string& directory : ledger_.unsynced()) TRY(this->directory(directory));
  return {};
}

}  // namespace kvkeep::store
