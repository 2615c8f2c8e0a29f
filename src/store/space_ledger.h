#pragma once

// The budget of one cache directory, kept so that it holds on disk at every moment, a power cut included.
//
// Bytes are reserved before the first is written. Bytes of an unlinked file leave used() at once, but their room is
// given out again only after the directory was synced: until then a power cut could bring the old file back beside the
// new one.

#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/types.h"

namespace kvkeep::store {

// Thread safe.
class SpaceLedger {
 public:
  explicit SpaceLedger(ByteCount budget) : budget_(budget) {}

  // A file found at open; the total may pass the budget.
  void add_existing(ByteCount bytes);
  // False: would not fit; nothing is reserved.
  bool reserve(ByteCount bytes);
  // Reserved bytes that never came to be.
  void cancel(ByteCount bytes);
  // A file of `directory` was unlinked or replaced.
  void release(const std::string& directory, ByteCount bytes);
  // A name of `directory` changed without freeing bytes: what is freed elsewhere may depend on it.
  void note_unsynced(const std::string& directory);
  void directory_synced(const std::string& directory);

  // Directories to sync before all freed room can be used.
  std::vector<std::string> unsynced() const;
  ByteCount used() const;
  ByteCount budget() const { return budget_; }

 private:
  const ByteCount budget_;
  mutable Mutex mutex_;
  ByteCount used_ GUARDED_BY(mutex_);
  ByteCount pending_ GUARDED_BY(mutex_);  // unlinked, not yet durably so
  std::set<std::string> unsynced_ GUARDED_BY(mutex_);
};

}  // namespace kvkeep::store
