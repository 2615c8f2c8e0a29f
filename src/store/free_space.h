#pragma once

// Decides whether the file system has room for files: a floor of free space is left to others, and a disk may say that
// it is full. Then storing stops, and goes on by itself; the system is asked or tried at most about once a second.
//
// Not the budget (space_ledger.h), which bounds what the cache itself takes.

#include <atomic>
#include <cstdint>
#include <string>

#include "base/types.h"
#include "os/clock.h"
#include "os/file_system.h"

namespace kvkeep::store {

// Not thread safe, except stopped().
class FreeSpace {
 public:
  // `reserve` bytes are left free; 0: only a full disk stops storing. `directory` lies on the file system.
  FreeSpace(std::string directory, ByteCount reserve, os::FileSystem& files, os::Clock& clock)
      : directory_(std::move(directory)), reserve_(reserve), files_(files), clock_(clock) {}

  // Returns false if a file of so many bytes would leave too little, or the disk was full a moment ago. If the system
  // does not say how much is free, files are tried.
  bool admits(ByteCount bytes);
  // The outcome of an admitted file.
  void wrote(ByteCount bytes);
  void found_full(ByteCount bytes);
  // Returns true from the first file that was not admitted, or that the disk had no room for, until as much as the
  // largest of these was written, or a minute passed without another: a disk with room for only small files is full.
  bool stopped() const { return stopped_; }

 private:
  void ask(std::int64_t now_ns);
  void stop(ByteCount refused, std::int64_t now_ns);

  const std::string directory_;
  const ByteCount reserve_;
  os::FileSystem& files_;
  os::Clock& clock_;
  std::atomic<bool> stopped_ = false;
  bool known_ = false;       // free_ is an answer
  ByteCount free_;           // when last asked, less what was written since
  ByteCount written_;        // since then
  ByteCount refused_;        // while stopped: the largest file
  ByteCount written_after_;  // the last refusal
  std::int64_t refused_ns_ = 0;
  std::int64_t asked_ns_ = 0;
  std::int64_t try_again_ns_ = 0;  // after the disk was full
  std::int64_t pause_ns_ = 0;
};

}  // namespace kvkeep::store
