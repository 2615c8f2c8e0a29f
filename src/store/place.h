#pragma once

// Shared by the parts of one store: where its files lie, and its counters.

#include <cstdint>
#include <string>

#include "base/mutex.h"
#include "os/clock.h"
#include "os/file_system.h"
#include "store/disk_types.h"
#include "store/layout.h"

namespace kvkeep::store {

struct Place {
  Layout layout;
  os::FileSystem& files;
  os::Clock& clock;

  std::string path_of(const std::string& file_name) const { return layout.own + "/" + file_name; }
};

// The counters of all parts of one store. Thread safe.
class DiskCounting {
 public:
  void add(std::uint64_t DiskCounters::* which, std::uint64_t count = 1) {
    const MutexLock lock(mutex_);
    counters_.*which += count;
  }
  DiskCounters counters() const {
    const MutexLock lock(mutex_);
    return counters_;
  }

 private:
  mutable Mutex mutex_;
  DiskCounters counters_ GUARDED_BY(mutex_);
};

}  // namespace kvkeep::store
