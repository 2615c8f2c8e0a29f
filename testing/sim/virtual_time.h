#pragma once

// Threads in virtual time: tasks that wait for answers go on side by side. Each runs on a thread of its own until it
// waits; one runs at a time, in the order in which they are posted or their waits end. Time passes only where somebody
// lets it, while all tasks wait, and stops on its way at each moment at which one of them goes on: every run is the
// same, however the machine is loaded.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "os/executor.h"
#include "testing/sim/sim_clock.h"

namespace kvkeep::sim {

// Thread safe.
class VirtualTime {
 public:
  explicit VirtualTime(SimClock& clock) : clock_(clock) {}

  // In a task: it waits so long. Elsewhere: so much time passes.
  void pass_ns(std::int64_t ns) { in_task() ? wait(ns) : let_pass(ns); }
  // Time passes until the next task goes on and waits again, or ends. Returns false if none waits.
  bool pass_to_next() {
    const MutexLock passing(passing_);
    const MutexLock lock(mutex_);
    return go_on_with_first(INT64_MAX);
  }

  // So many threads, on which tasks run in the order posted.
  class Threads final : public os::Executor {
   public:
    Threads(VirtualTime& time, std::size_t count) : time_(time), free_(count) {
      {
        const MutexLock lock(time_.mutex_);
        time_.all_.push_back(this);
      }
      for (std::size_t i = 0; i < count; ++i) threads_.emplace_back([this] { work(); });
    }
    ~Threads() override {
      drain();
      {
        const MutexLock lock(time_.mutex_);
        stopping_ = true;
        std::erase(time_.all_, this);
        time_.changed_.notify_all();
      }
      for (std::thread& thread : threads_) thread.join();
    }
    Threads(const Threads&) = delete;
    Threads& operator=(const Threads&) = delete;

    void post(std::function<void()> task) override {
      const MutexLock lock(time_.mutex_);
      tasks_.push_back(std::move(task));
      time_.changed_.notify_all();
    }
    void drain() override {
      while (time_.pass_to_next()) continue;
    }

   private:
    friend class VirtualTime;
    bool begins_one() const { return free_ > 0 && !tasks_.empty(); }
    void work() NO_THREAD_SAFETY_ANALYSIS {
      in_task() = true;
      time_.mutex_.lock();
      for (;;) {
        while (!stopping_ && (time_.runs_ || tasks_.empty())) time_.changed_.wait(time_.mutex_);
        if (stopping_) break;
        std::function<void()> task = std::move(tasks_.front());
        tasks_.pop_front();
        --free_;
        time_.runs_ = true;
        time_.mutex_.unlock();
        std::exchange(task, nullptr)();
        time_.mutex_.lock();
        ++free_;
        time_.runs_ = false;
        time_.changed_.notify_all();
      }
      time_.mutex_.unlock();
    }

    VirtualTime& time_;  // whose mutex guards what follows
    std::size_t free_;   // threads without a task
    std::deque<std::function<void()>> tasks_;
    bool stopping_ = false;
    std::vector<std::thread> threads_;
  };

 private:
  static bool& in_task() {
    thread_local bool is = false;
    return is;
  }
  void wait(std::int64_t ns) {
    bool goes_on = false;
    const MutexLock lock(mutex_);
    waiting_.emplace(clock_.monotonic_ns() + ns, &goes_on);
    runs_ = false;
    changed_.notify_all();
    while (!goes_on) changed_.wait(mutex_);
  }
  void let_pass(std::int64_t ns) {
    const MutexLock passing(passing_);
    const MutexLock lock(mutex_);
    const std::int64_t end_ns = clock_.monotonic_ns() + ns;
    while (go_on_with_first(end_ns)) continue;
    set(end_ns);
  }
  // Returns false if no task goes on until then.
  bool go_on_with_first(std::int64_t until_ns) REQUIRES(mutex_) {
    settle();
    if (waiting_.empty() || waiting_.begin()->first > until_ns) return false;
    const auto first = waiting_.extract(waiting_.begin());
    set(first.key());
    runs_ = *first.mapped() = true;
    changed_.notify_all();
    settle();
    return true;
  }
  // Until each task waits.
  void settle() REQUIRES(mutex_) {
    while (runs_ || std::ranges::any_of(all_, &Threads::begins_one)) changed_.wait(mutex_);
  }
  void set(std::int64_t ns) REQUIRES(mutex_) {
    const std::int64_t now_ns = clock_.monotonic_ns();
    if (ns > now_ns) clock_.advance_ns(ns - now_ns);
  }

  SimClock& clock_;
  Mutex passing_;  // one thread at a time lets time pass
  Mutex mutex_;
  CondVar changed_;
  bool runs_ GUARDED_BY(mutex_) = false;                           // a task does
  std::multimap<std::int64_t, bool*> waiting_ GUARDED_BY(mutex_);  // tasks, by when they go on
  std::vector<Threads*> all_ GUARDED_BY(mutex_);
};

}  // namespace kvkeep::sim
