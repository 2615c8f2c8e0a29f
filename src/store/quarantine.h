#pragma once

// Damaged files are moved here, so that somebody can look at them, and so that they are never served or found again. A
// few are kept; the oldest leave first. They count against the budget.

#include <deque>
#include <string>

#include "os/clock.h"
#include "os/file_system.h"
#include "store/unserved_files.h"

namespace kvkeep::store {

// Not thread safe.
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
