#pragma once

// Files in the root that are counted but not served: leftovers whose unlink failed, which are tried again, files that
// may be removed on request (other fingerprints', unreadable ones), and unfinished files of other servers.

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "os/clock.h"
#include "os/file_system.h"
#include "store/disk_types.h"
#include "store/removal_order.h"
#include "store/space_ledger.h"

namespace kvkeep::store {

// Not thread safe, except foreign_bytes(). Every file here is counted in the ledger.
class UnservedFiles {
 public:
  UnservedFiles(os::FileSystem& files, SpaceLedger& ledger) : files_(files), ledger_(ledger) {}

  // Everything will be counted anew.
  void clear();
  // Unlinks a counted file that must not be seen again; if that fails it becomes a leftover. Returns true if it is
  // gone.
  bool discard(const std::string& path, ByteCount bytes);
  // Unlinks some leftovers; called before each put, so that a passed fault costs no room for ever.
  void retry_leftovers();

  void add_removable(const std::string& path, ByteCount bytes, std::int64_t modified_ns);
  // In order (removal_order.h), pinned and kept ones last or not at all; until `needed` bytes are freed or none is left
  // that can be unlinked. Reads the header of each segment once, some thousands at a time (a directory of more frees
  // nothing before a later call), and the pins of each directory.
  ByteCount remove_oldest(ByteCount needed, std::int64_t now_ns, Kept kept);
  // Removes those that were used last before `time_ns` and are not kept, in the same order.
  ByteCount remove_used_before(std::int64_t time_ns, std::int64_t now_ns);
  ByteCount foreign_bytes() const { return ByteCount{foreign_bytes_.load()}; }

  // Takes a listing of `directory`, as far as it concerns unserved files: counts files that are new, grew, or were
  // removed by other hands. Those for which `busy` returns true are not removable.
  void update(const std::string& directory, const std::vector<os::FileInfo>& listed,
              const std::function<bool(const os::FileInfo&)>& busy);
  // After the ledger began anew: counts leftovers again, forgets the rest.
  void recount();

  // A file that could not be unlinked, in any directory: it was counted when that failed.
  bool is_leftover(const std::string& path) const { return leftovers_.contains(path); }
  bool knows(const std::string& path) const { return leftovers_.contains(path) || removable_.contains(path); }
  // A file was renamed over `path`: the old file is gone.
  void replaced(const std::string& path);

 private:
  struct Removable {
    ByteCount bytes;
    std::int64_t modified_ns = 0;
    bool busy = false;
    bool looked_at = false;
    std::uint32_t refused = 0;            // times that its header could not be read
    std::optional<FilePlace> place = {};  // as its header has it
  };
  using Removables = std::map<std::string, Removable>;
  void add(const std::string& path, Removable file);
  Removables::iterator forget(Removables::iterator file);
  bool look_at(const std::string& path, Removable& file);
  std::vector<UnservedFile> candidates();
  std::vector<UnservedFile> in_order();
  void mark_pinned(std::vector<UnservedFile>& files) const;
  bool remove(const std::string& path, ByteCount& freed);

  os::FileSystem& files_;
  SpaceLedger& ledger_;
  std::map<std::string, ByteCount> leftovers_;
  Removables removable_;
  std::atomic<std::uint64_t> foreign_bytes_ = 0;
};

// Damaged files are moved here, so that somebody can look at them, and so that they are never served or found again. A
// few are kept; the oldest leave first. They count against the budget. Not thread safe.
class Quarantine {
 public:
  Quarantine(std::string directory, ByteCount budget, os::FileSystem& files, os::Clock& clock, SpaceLedger& ledger,
             UnservedFiles& unserved);

  // Makes the directory and counts its files. If that is impossible, damaged files are unlinked instead of moved. kIo:
  // its files cannot be counted. May be called again.
  Status open();
  ByteCount held_bytes() const { return held_bytes_; }
  // Takes a counted file out of service: moves it here, else unlinks it, else leaves it as a leftover of `unserved`.
  void take(const std::string& path, ByteCount bytes);
  // Removes its files, oldest first, until `needed` bytes are freed.
  ByteCount give_up(ByteCount needed);

 private:
  struct Held {
    std::string path;
    ByteCount bytes;
  };
  void prune();
  void drop_oldest();

  const std::string directory_;
  const ByteCount limit_;
  os::FileSystem& files_;
  os::Clock& clock_;
  SpaceLedger& ledger_;
  UnservedFiles& unserved_;
  bool usable_ = false;
  std::uint64_t taken_ = 0;
  std::deque<Held> held_;  // oldest first
  ByteCount held_bytes_;
};

}  // namespace kvkeep::store
