// Executor on one thread. A task gets a number when posted; drain() waits for its number to have run.

#include <pthread.h>

#include <cstdint>
#include <deque>
#include <string>
#include <thread>
#include <utility>

#include "base/assert.h"
#include "base/mutex.h"
#include "os/executor.h"

namespace kvkeep::os {
namespace {

class ThreadExecutor final : public Executor {
 public:
  explicit ThreadExecutor(const char* name) : name_(std::string(name).substr(0, 15)), thread_([this] { work(); }) {}

  ~ThreadExecutor() override {
    {
      const MutexLock lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void post(std::function<void()> task) override {
    {
      const MutexLock lock(mutex_);
      KVKEEP_ASSERT(!stopping_, "no task may be posted while the executor is destroyed");
      tasks_.push_back(std::move(task));
      ++posted_;
    }
    changed_.notify_all();
  }

  void drain() override {
    KVKEEP_ASSERT(std::this_thread::get_id() != thread_.get_id(), "a task cannot wait for its own executor");
    const MutexLock lock(mutex_);
    const std::uint64_t target = posted_;
    while (finished_ < target) changed_.wait(mutex_);
  }

 private:
  void work() {
    ::pthread_setname_np(::pthread_self(), name_.c_str());
    while (auto task = next()) {
      task();
      task = nullptr;  // what it captured goes before drain() returns
      {
        const MutexLock lock(mutex_);
        ++finished_;
      }
      changed_.notify_all();
    }
  }

  // Empty when the executor stops and nothing is left.
  std::function<void()> next() {
    const MutexLock lock(mutex_);
    while (tasks_.empty() && !stopping_) changed_.wait(mutex_);
    if (tasks_.empty()) return nullptr;
    auto task = std::move(tasks_.front());
    tasks_.pop_front();
    return task;
  }

  const std::string name_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> tasks_ GUARDED_BY(mutex_);
  std::uint64_t posted_ GUARDED_BY(mutex_) = 0;
  std::uint64_t finished_ GUARDED_BY(mutex_) = 0;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: starts when all above exists
};

}  // namespace

std::unique_ptr<Executor> make_thread_executor(const char* name) { return std::make_unique<ThreadExecutor>(name); }

}  // namespace kvkeep::os
