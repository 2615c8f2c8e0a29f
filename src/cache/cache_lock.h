#pragma once

// The one lock of a cache, as a capability that is passed around.
//
// A cache is made of several classes, and their members change together: so there is one mutex for all of them. The
// cache makes it and gives it to each class that takes the lock itself. clang's analysis cannot know that two
// references name the same mutex. So the annotations name a role, `kCacheLock`, which a CacheLock, the only way to take
// a CacheMutex, takes on: GUARDED_BY(kCacheLock) and REQUIRES(kCacheLock) are checked across all classes.
//
// Order: a store's own locks come after this one if they are held for a moment (used(), stopped()), and before it if a
// call may wait for a disk (put(), get(), remove(), writes()): no call that may wait is made with this lock.

#include "base/mutex.h"

namespace kvkeep::cache {

class CAPABILITY("the cache's lock") CacheLockRole {};
inline constexpr CacheLockRole kCacheLock;

class CacheMutex {
 public:
  Mutex& mutex() { return mutex_; }

 private:
  Mutex mutex_;
};

class SCOPED_CAPABILITY CacheLock {
 public:
  explicit CacheLock(CacheMutex& mutex) ACQUIRE(kCacheLock) NO_THREAD_SAFETY_ANALYSIS : mutex_(mutex.mutex()) {
    mutex_.lock();
  }
  ~CacheLock() RELEASE() NO_THREAD_SAFETY_ANALYSIS { mutex_.unlock(); }
  CacheLock(const CacheLock&) = delete;
  CacheLock& operator=(const CacheLock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace kvkeep::cache
