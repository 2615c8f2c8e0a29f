#pragma once

// Background work that runs when the test says so, on the test's own thread, in the order posted.

#include <deque>
#include <functional>
#include <utility>

#include "base/mutex.h"
#include "os/executor.h"

namespace kvkeep::sim {

// Thread safe for post(); tasks run on the thread that calls run_one, run_all or drain.
class SimExecutor final : public os::Executor {
 public:
  void post(std::function<void()> task) override {
    const MutexLock lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  void drain() override { run_all(); }

  // Returns false if nothing was waiting.
  bool run_one() {
    std::function<void()> task;
    {
      const MutexLock lock(mutex_);
      if (tasks_.empty()) return false;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
    return true;
  }
  // Also runs tasks that tasks post.
  void run_all() {
    while (run_one()) {}
  }
  // The process dies: waiting tasks never run.
  void forget_all() {
    const MutexLock lock(mutex_);
    tasks_.clear();
  }
  std::size_t waiting() const {
    const MutexLock lock(mutex_);
    return tasks_.size();
  }

 private:
  mutable Mutex mutex_;
  std::deque<std::function<void()>> tasks_ GUARDED_BY(mutex_);
};

}  // namespace kvkeep::sim
