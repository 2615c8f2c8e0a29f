#include "os/threads.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/mutex.h"
#include "os/executor.h"

namespace kvkeep::os {
namespace {

// Tasks that wait for threads. Thread safe.
class TaskQueue {
 public:
  // Returns false after stop(): the task runs all the same if a thread of the queue posted it.
  bool push(std::function<void()> task) {
    const MutexLock lock(mutex_);
    tasks_.push_back(std::move(task));
    ++posted_;
    came_.notify_one();
    return !stopping_;
  }

  // Runs tasks until stop() was called and no task is left.
  void work(const std::string& name) {
    ::pthread_setname_np(::pthread_self(), name.substr(0, 15).c_str());
    while (auto next = begin_next()) {
      next->task();
      next->task = nullptr;  // destroys its captures before drain() returns
      const MutexLock lock(mutex_);
      running_.erase(next->number);
      done_.notify_all();
    }
  }

  void stop() {
    const MutexLock lock(mutex_);
    stopping_ = true;
    came_.notify_all();
  }

  // Returns when all tasks have run that were posted before the call. With several threads, later ones may end first.
  void drain() {
    const MutexLock lock(mutex_);
    const std::uint64_t target = posted_;
    while (begun_ < target || (!running_.empty() && *running_.begin() < target)) done_.wait(mutex_);
  }

 private:
  struct Begun {
    std::uint64_t number;
    std::function<void()> task;
  };
  // Returns nullopt when the queue stops and no task is left.
  std::optional<Begun> begin_next() {
    const MutexLock lock(mutex_);
    while (tasks_.empty() && !stopping_) came_.wait(mutex_);
    if (tasks_.empty()) return std::nullopt;
    Begun begun{begun_++, std::move(tasks_.front())};
    tasks_.pop_front();
    running_.insert(begun.number);
    return begun;
  }

  Mutex mutex_;
  CondVar came_;
  CondVar done_;
  std::deque<std::function<void()>> tasks_ GUARDED_BY(mutex_);
  std::uint64_t posted_ GUARDED_BY(mutex_) = 0;
  std::uint64_t begun_ GUARDED_BY(mutex_) = 0;
  std::set<std::uint64_t> running_ GUARDED_BY(mutex_);  // numbers of tasks, in the order posted
  bool stopping_ GUARDED_BY(mutex_) = false;
};

class ThreadExecutor final : public Executor {
 public:
  ThreadExecutor(const char* name, std::size_t threads) {
    KVKEEP_ASSERT(threads > 0, "an executor without threads runs nothing");
    for (std::size_t i = 0; i < threads; ++i) {
      threads_.emplace_back([this, name = std::string(name)] { queue_.work(name); });
    }
  }
  ~ThreadExecutor() override {
    queue_.stop();
    for (std::thread& thread : threads_) thread.join();
  }

  void post(std::function<void()> task) override {
    const bool open = queue_.push(std::move(task));
    KVKEEP_ASSERT(open, "no task may be posted while the executor is destroyed");
  }

  void drain() override {
    const std::thread::id self = std::this_thread::get_id();
    const bool own = std::ranges::any_of(threads_, [self](const std::thread& each) { return each.get_id() == self; });
    KVKEEP_ASSERT(!own, "a task cannot wait for its own executor");
    queue_.drain();
  }

 private:
  TaskQueue queue_;
  std::vector<std::thread> threads_;  // last: they use the queue
};

class Pool final : public ThreadPool {
 public:
  Pool(std::size_t threads, const char* name) {
    KVKEEP_ASSERT(threads > 0, "a pool without threads runs nothing");
    for (std::size_t i = 0; i < threads; ++i) {
      threads_.emplace_back([this, name = std::string(name)] { queue_.work(name); });
    }
  }
  ~Pool() override {
    queue_.stop();
    for (std::thread& thread : threads_) thread.join();
  }

  void post(std::function<void()> task) override { queue_.push(std::move(task)); }

 private:
  TaskQueue queue_;
  std::vector<std::thread> threads_;
};

class ThreadTicker final : public Ticker {
 public:
  ThreadTicker(std::chrono::milliseconds period, std::function<void()> task)
      : thread_([period, call = std::move(task)](const std::stop_token& stop) {
          std::mutex mutex;
          std::condition_variable_any waiting;
          std::unique_lock lock(mutex);
          // The result of a wait that a stop interrupts is ignored: libstdc++ may report a timeout.
          while (!stop.stop_requested()) {
            waiting.wait_for(lock, stop, period, [&] { return stop.stop_requested(); });
            if (!stop.stop_requested()) call();
          }
        }) {}

 private:
  std::jthread thread_;
};

}  // namespace

std::unique_ptr<Executor> make_thread_executor(const char* name, std::size_t threads) {
  return std::make_unique<ThreadExecutor>(name, threads);
}

std::unique_ptr<ThreadPool> make_thread_pool(std::size_t threads, const char* name) {
  return std::make_unique<Pool>(threads, name);
}

std::unique_ptr<Ticker> make_ticker(std::chrono::milliseconds period, std::function<void()> task) {
  return std::make_unique<ThreadTicker>(period, std::move(task));
}

std::int64_t thread_cpu_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

std::vector<std::uint32_t> allowed_processors() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  std::vector<std::uint32_t> found;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return found;
  for (std::uint32_t i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &allowed)) found.push_back(i);
  }
  return found;
}

void let_others_go_first() {
  constexpr int kNicest = 19;
  (void)::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNicest);  // of one thread, on Linux
}

namespace {

// The kernel's priorities are those that ggml gives to its own threads.
int set_priority(int priority) {
  if (priority == 0) return 0;
  constexpr int kRealtime[] = {40, 80, 90};
  sched_param param{};
  if (priority > 0) param.sched_priority = kRealtime[std::min(priority, 3) - 1];
  return ::pthread_setschedparam(::pthread_self(), priority > 0 ? SCHED_FIFO : SCHED_BATCH, &param);
}

Status priority_status(int error, int priority) {
  if (error == 0) return {};
  return invalid("the system does not permit priority " + std::to_string(priority) + " (" + std::strerror(error) +
                 "): run as root, with CAP_SYS_NICE or a higher ulimit -r, or leave it out");
}

}  // namespace

Status place_this_thread(const std::vector<std::uint32_t>& processors, int priority) {
  cpu_set_t wanted;
  CPU_ZERO(&wanted);
  for (const std::uint32_t processor : processors) {
    if (processor < CPU_SETSIZE) CPU_SET(processor, &wanted);
  }
  if (!processors.empty() && ::pthread_setaffinity_np(::pthread_self(), sizeof wanted, &wanted) != 0) {
    return invalid("the system does not permit these processors");
  }
  return priority_status(set_priority(priority), priority);
}

Status check_priority(int priority) {
  int error = 0;
  std::thread([&] { error = set_priority(priority); }).join();
  return priority_status(error, priority);
}

void run_side_by_side(const std::vector<std::function<void()>>& tasks) {
  std::vector<std::jthread> threads;  // each joins
  for (std::size_t i = 0; i + 1 < tasks.size(); ++i) threads.emplace_back(tasks[i]);
  if (!tasks.empty()) tasks.back()();
}

void pause(std::chrono::milliseconds time) { std::this_thread::sleep_for(time); }

bool wait_until(int limit_ms, const std::function<bool()>& is_so) {
  using Steady = std::chrono::steady_clock;
  const auto deadline = Steady::now() + std::chrono::milliseconds(limit_ms);
  auto wait = std::chrono::milliseconds(1);
  while (true) {
    if (is_so()) return true;
    if (Steady::now() >= deadline) return false;
    std::this_thread::sleep_for(wait);
    wait = std::min(2 * wait, std::chrono::milliseconds(10));
  }
}

}  // namespace kvkeep::os
