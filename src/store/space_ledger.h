#pragma once

// The budget of one cache directory, kept so that it holds on disk at every moment, a power cut included.
//
// Bytes are reserved before the first is written. Bytes of an unlinked file leave used() at once, but their room is
// given out again only after the directory was synced: until then a power cut could bring the old file back next to the
// new one.
//
// If several servers use the directory, one of them keeps the budget; it counts the bytes that it has granted the
// others as if they were written. The others draw on their grants (docs/format.md, "Several servers").

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/types.h"
#include "os/file_system.h"
#include "store/disk_types.h"
#include "store/layout.h"

namespace kvkeep::store {

// Thread safe.
class SpaceLedger {
 public:
  explicit SpaceLedger(ByteCount budget) : budget_(budget) {}

  // Everything will be counted anew: until end_recount() the former count, with unlinked bytes and leases of others, is
  // added to the new one. Nothing may be reserved meanwhile. A second begin without an end drops the files that the
  // first attempt had counted.
  void begin_recount();
  void end_recount();
  // A file found at open; the total may exceed the budget.
  void add_existing(ByteCount bytes);
  // Returns false if the bytes would not fit; then nothing is reserved.
  bool reserve(ByteCount bytes);
  // Reserved bytes that were never written.
  void cancel(ByteCount bytes);
  // A file of `directory` was unlinked or replaced.
  void release(const std::string& directory, ByteCount bytes);
  // A name of `directory` changed without freeing bytes: room that is freed elsewhere may depend on it.
  void note_unsynced(const std::string& directory);
  void directory_synced(const std::string& directory);

  // Directories to sync before all freed room can be used.
  std::vector<std::string> unsynced() const;
  // Leases of others included.
  ByteCount used() const;

  // ---- The keeper ----
  // From now on the budget decides, and the files are counted anew.
  void keep_budget();
  // The bytes that others may still write.
  void set_leased(ByteCount bytes);
  // Grants others as much of `bytes` as there is room for; returns how much.
  ByteCount lease(ByteCount bytes);

  // ---- A member ----
  // From now on reservations draw on a lease, which is empty at first.
  void draw_on_lease();
  void add_to_lease(ByteCount bytes);
  ByteCount lease_left() const;

  // All bytes that were ever reserved and not cancelled.
  ByteCount drawn() const;
  ByteCount budget() const { return budget_; }

 private:
  const ByteCount budget_;
  mutable Mutex mutex_;
  ByteCount room() const REQUIRES(mutex_);

  ByteCount used_ GUARDED_BY(mutex_);
  std::optional<ByteCount> counted_before_ GUARDED_BY(mutex_);  // while a recount is under way
  ByteCount pending_ GUARDED_BY(mutex_);                        // unlinked, not yet durably so
  std::set<std::string> unsynced_ GUARDED_BY(mutex_);
  ByteCount leased_ GUARDED_BY(mutex_);
  std::optional<ByteCount> lease_left_ GUARDED_BY(mutex_);  // nullopt: the budget decides
  ByteCount drawn_ GUARDED_BY(mutex_);
};

// Syncs files and directories, counts failures, and reports to the ledger which room may be given out again. Thread
// safe.
class Syncs {
 public:
  Syncs(os::FileSystem& files, SpaceLedger& ledger, DiskCounting& counting)
      : files_(files), ledger_(ledger), counting_(counting) {}

  Status file(os::File& file) { return counted(file.sync()); }
  Status directory(const std::string& path);
  // Every directory in which something was removed.
  Status removals();

 private:
  Status counted(Status status);

  os::FileSystem& files_;
  SpaceLedger& ledger_;
  DiskCounting& counting_;
};

}  // namespace kvkeep::store
