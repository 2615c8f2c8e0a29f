#pragma once

// Every file of the cache's root, counted once: it is served, unserved (unserved_files.h), in quarantine, or the saved
// index. The keeper's inventory covers the whole root; a member's covers its own directory and moves no file.
//
// The total is never less than the files: a file is counted before it is written and until it is gone.

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "store/directory_scan.h"
#include "store/disk_types.h"
#include "store/layout.h"
#include "store/served_files.h"
#include "store/space_ledger.h"
#include "store/unserved_files.h"

namespace kvkeep::store {

// The files of the root at one moment.
struct Survey {
  RootScan root;
  std::vector<os::FileInfo> own;
  std::vector<std::pair<std::string, std::vector<os::FileInfo>>> foreign;  // by directory
};

// Not thread safe, except foreign_bytes(): callers that write, rename or remove files hold the store's write lock.
class Inventory {
 public:
  // Returns true for the temporary file of a living server.
  using IsBusy = std::function<bool(const os::FileInfo& temporary)>;
  Inventory(const DiskOptions& options, const Place& place, SpaceLedger& ledger, ServedFiles& served,
            DiskCounting& counting);

  // ---- Opening ----
  // For the keeper: counts every file, sweeps unfinished ones, quarantines damaged ones, serves the rest.
  Status open_root(const IsBusy& is_busy);
  // For a member.
  Status open_own();
  // Before the directory is opened anew: returns the files that were served.
  ServedFiles::Table forget_all();
  // For a member that is about to become the keeper; nothing changes before recount().
  Result<Survey> look_to_keep();
  void recount(const Survey& found);

  // ---- Looking again, for what other servers did ----
  Result<Survey> survey() const;
  void merge(const Survey& found, const IsBusy& is_busy, DiskTick& tick);
  void look_at_own(const std::vector<os::FileInfo>& listed, const IsBusy& is_busy, DiskTick& tick);
  // Makes removals by dead processes durable: after a power cut an unlinked file could come back next to the file that
  // takes its room.
  Status settle_former_removals(const RootScan& root) const;

  // ---- Files that are being written ----
  // Returns true if a file of that name is there, served or not.
  bool knows(const std::string& file_name) const;
  // Unlinks a counted file that is not served, now or later.
  void discard(const std::string& path, ByteCount bytes) { unserved_.discard(path, bytes); }
  void retry_leftovers() { unserved_.retry_leftovers(); }
  // A counted file was renamed over whatever had this name.
  void replaced(const std::string& file_name);
  void index_replaced(ByteCount bytes);

  // ---- Files that leave service, unless they have another generation by now ----
  void forget(const std::string& file_name, std::uint64_t generation);
  // It stays, unserved, until room is needed.
  void disown(const std::string& file_name, std::uint64_t generation);
  // The keeper moves a damaged file to the quarantine.
  void set_aside(const std::string& file_name, std::uint64_t generation);
  // Another server may have written the name anew with other parts (a whole state that is built on an earlier one, or
  // no longer is): that is no damage, and is reported like any new file. Returns false if the file is the known one, or
  // damaged.
  bool adopt_anew(const std::string& file_name, std::uint64_t generation);

  // ---- Room ----
  ByteCount foreign_bytes() const { return unserved_.foreign_bytes(); }
  ByteCount remove_oldest(ByteCount needed, Kept kept);
  ByteCount remove_used_before(std::int64_t time_ns);
  ByteCount give_up_quarantine(ByteCount needed) { return quarantine_.give_up(needed); }

 private:
  std::string path_of(const std::string& file_name) const { return place_.path_of(file_name); }
  Status count_foreign(const std::string& directory, const IsBusy& is_busy);
  void sweep(const std::string& directory, const os::FileInfo& temporary);
  void set_all_aside(const DirectoryScan& scan, const IsBusy& is_busy);
  void serve(DirectoryScan scan);
  void adopt(std::vector<FoundSegment> found);
  std::vector<os::FileInfo> merge_foreign(const std::string& directory, const std::vector<os::FileInfo>& listed,
                                          const IsBusy& is_busy);
  std::vector<os::FileInfo> merge_own(const std::vector<os::FileInfo>& listed, const IsBusy& is_busy, DiskTick& tick);
  void compare_with(const std::vector<os::FileInfo>& listed, DiskTick& tick);
  void merge_index(ByteCount bytes);
  void merge_segment(const os::FileInfo& info, std::vector<FoundSegment>& found);

  const DiskOptions& options_;
  const Place& place_;
  SpaceLedger& ledger_;
  ServedFiles& served_;
  DiskCounting& counting_;
  UnservedFiles unserved_;
  Quarantine quarantine_;
  bool covers_root_ = false;
  ByteCount index_bytes_;  // of the saved index on disk; 0: there is none
};

}  // namespace kvkeep::store
