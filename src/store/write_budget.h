#pragma once

// How much may be written to a disk in a day: an allowance that refills with time. Mechanism only: the caller decides
// how to spend it.
//
// An eighth of the day's bytes may gather, seven eighths come back in a day: no 24 hours see more than the day's bytes,
// and one file that began with something left. A small file in the cache's root carries the allowance over a restart.
// It is advice: if it is missing the directory is new; if it cannot be believed nothing is left.

#include <cstdint>
#include <string>

#include "base/types.h"
#include "os/clock.h"
#include "os/file_system.h"
#include "store/disk_types.h"

namespace kvkeep::store {

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
