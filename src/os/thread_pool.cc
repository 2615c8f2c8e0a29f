#include "os/thread_pool.h"

#include <pthread.h>

#include <deque>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/mutex.h"

namespace kvkeep::os {
namespace {

class Pool final : public ThreadPool {
 public:
  Pool(std::size_t threads, const char* name) : name_(std::string(name).substr(0, 15)) {
    KVKEEP_ASSERT(threads > 0, "a pool without threads runs nothing");
    for (std::size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
  }
  ~Pool() override {
    {
      const MutexLock lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void post(std::function<void()> task) override {
    {
      const MutexLock lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    changed_.notify_one();
  }

 private:
  void work() {
    ::pthread_setname_np(::pthread_self(), name_.c_str());
    while (auto task = next()) task();
  }

  // Empty when the pool stops and nothing is left.
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
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<ThreadPool> make_thread_pool(std::size_t threads, const char* name) {
  return std::make_unique<Pool>(threads, name);
}

}  // namespace kvkeep::os
