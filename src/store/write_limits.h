#pragma once

// The bounds of writing in addition to the budget (space_ledger.h, which bounds the files of the cache): the free space
// of the file system, and the bytes that may be written in a day.

#include <atomic>
#include <cstdint>
#include <string>

#include "base/types.h"
#include "os/clock.h"
#include "os/file_system.h"
#include "store/disk_types.h"

namespace kvkeep::store {

// Decides whether the file system has room for files: a floor of free space is left to others, and a disk may say that
// it is full. Then storing stops, and goes on by itself; the system is asked or tried at most about once a second. Not
// thread safe, except stopped().
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

// How much may be written to a disk in a day: an allowance that refills with time. Mechanism only: the caller decides
// how to spend it.
//
// An eighth of the day's bytes may gather, seven eighths come back in a day: no 24 hours see more than the day's bytes,
// and one file that began with something left. A small file in the cache's root carries the allowance over a restart.
// It is advice: if it is missing the directory is new; if it cannot be believed nothing is left.
//
// Not thread safe.
class WriteBudget {
 public:
  // `per_day` 0: no limit, nothing is counted, and the file is left alone.
  WriteBudget(std::string path, ByteCount per_day, os::FileSystem& files, os::Clock& clock)
      : path_(std::move(path)), per_day_(per_day), files_(files), clock_(clock) {}

  bool limited() const { return per_day_ > ByteCount{}; }
  // Reads the file.
  void open();
  // Whether this process writes the file.
  void set_saves(bool saves) { saves_ = saves; }
  WriteAllowance allowance();
  void wrote(ByteCount bytes);
  // At the end: without it the next process begins with a little less than is left.
  void close();

 private:
  bool load();
  void refill();
  void save(double ahead);
  double most() const;

  const std::string path_;
  const ByteCount per_day_;
  os::FileSystem& files_;
  os::Clock& clock_;
  bool saves_ = false;
  bool disbelieved_ = false;
  double left_ = 0;  // bytes; below 0: the last file had more than was left
  std::int64_t as_of_ns_ = 0;
  double ahead_ = 0;  // may still be written before the file reports less than was written
};

}  // namespace kvkeep::store
