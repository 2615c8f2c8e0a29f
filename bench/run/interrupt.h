#pragma once

// One place that ends whatever a run waits for, so that it unwinds: servers are killed, requests are abandoned.

#include <atomic>
#include <functional>
#include <list>

#include "base/mutex.h"
#include "base/result.h"

namespace kvkeep::bench {

// Thread safe. raise() may be repeated, and should be until the run has ended: work that began meanwhile ends, too.
class Interrupt {
 public:
  using End = std::function<void()>;

  // Registers an `end` that raise() calls, for its lifetime. `end` is thread safe, quick, and never touches this.
  class Guard {
   public:
    Guard(Interrupt& interrupt, End end) : interrupt_(interrupt) {
      const MutexLock lock(interrupt_.mutex_);
      at_ = interrupt_.ends_.insert(interrupt_.ends_.end(), std::move(end));
    }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    ~Guard() {
      const MutexLock lock(interrupt_.mutex_);
      interrupt_.ends_.erase(at_);
    }

   private:
    Interrupt& interrupt_;
    std::list<End>::iterator at_;
  };

  void raise() {
    raised_ = true;
    const MutexLock lock(mutex_);
    for (const End& end : ends_) end();
  }
  bool raised() const { return raised_; }
  // Returns kAborted once raise() was called.
  Status check() const {
    if (raised()) return aborted("interrupted");
    return {};
  }

 private:
  std::atomic<bool> raised_{false};
  Mutex mutex_;
  std::list<End> ends_ GUARDED_BY(mutex_);
};

}  // namespace kvkeep::bench
