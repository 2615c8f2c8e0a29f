#pragma once

// The one lock of a cache, as a capability that is passed around.
//
// A cache is made of several classes, and what they own changes together: so there is one mutex for all of them, which
// the cache makes and each class that has work of its own is given. clang's analysis cannot know that two references
// name the same mutex. So what is annotated is a role, `kCacheLock`, and the only way to take a CacheMutex, a
// CacheLock, takes on that role: GUARDED_BY(kCacheLock) and REQUIRES(kCacheLock) are checked across all classes.
//
// Order: a store's own locks come after this one where they are held for a moment (used(), stopped()), and before it
// where a call may wait for a disk (put(), get(), remove(), writes()): nothing that may wait is called with it.

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
