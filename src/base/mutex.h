#pragma once

// std::mutex with the annotations that clang's thread-safety analysis checks (-Wthread-safety). Under g++ the macros
// vanish.

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define KVKEEP_ANNOTATE(x) __attribute__((x))
#else
#define KVKEEP_ANNOTATE(x)
#endif
#define CAPABILITY(x) KVKEEP_ANNOTATE(capability(x))
#define SCOPED_CAPABILITY KVKEEP_ANNOTATE(scoped_lockable)
#define GUARDED_BY(x) KVKEEP_ANNOTATE(guarded_by(x))
#define REQUIRES(...) KVKEEP_ANNOTATE(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) KVKEEP_ANNOTATE(locks_excluded(__VA_ARGS__))
#define ACQUIRE(...) KVKEEP_ANNOTATE(acquire_capability(__VA_ARGS__))
#define RELEASE(...) KVKEEP_ANNOTATE(release_capability(__VA_ARGS__))
#define NO_THREAD_SAFETY_ANALYSIS KVKEEP_ANNOTATE(no_thread_safety_analysis)

namespace kvkeep {

class CAPABILITY("mutex") Mutex {
 public:
  void lock() ACQUIRE() { mutex_.lock(); }
  void unlock() RELEASE() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

class SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Waits on a Mutex that the caller holds. Spurious wake-ups happen: wait in a loop over the condition.
class CondVar {
 public:
  void wait(Mutex& mutex) REQUIRES(mutex) NO_THREAD_SAFETY_ANALYSIS { cv_.wait(mutex); }
  // Returns false if the time ran out.
  template <typename Rep, typename Period>
  bool wait_for(Mutex& mutex, std::chrono::duration<Rep, Period> timeout) REQUIRES(mutex) NO_THREAD_SAFETY_ANALYSIS {
    return cv_.wait_for(mutex, timeout) == std::cv_status::no_timeout;
  }
  void notify_one() { cv_.notify_one(); }
  void notify_all() { cv_.notify_all(); }

 private:
  std::condition_variable_any cv_;
};

}  // namespace kvkeep
