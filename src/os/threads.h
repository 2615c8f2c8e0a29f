#pragma once

// Threads for work that simulations do not replace: many requests at once, a repeated call, and waiting.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/result.h"

namespace kvkeep::os {

// Thread safe. Tasks begin in the order posted and run side by side; an exception out of a task ends the program.
class ThreadPool {
 public:
  // Runs all posted tasks, then joins. Must not run in a task of this pool.
  virtual ~ThreadPool() = default;
  // Unbounded: the caller must limit its tasks.
  virtual void post(std::function<void()> task) = 0;
};

// `name` shows in debuggers (at most 15 characters).
std::unique_ptr<ThreadPool> make_thread_pool(std::size_t threads, const char* name);

// Destruction stops it before the next call, and waits for a call that runs.
class Ticker {
 public:
  virtual ~Ticker() = default;
};

// Calls `task` every `period` on a thread of its own, the first time after one period.
std::unique_ptr<Ticker> make_ticker(std::chrono::milliseconds period, std::function<void()> task);

// Runs all of these at once, each on a thread of its own but the last, which the caller runs. Returns when all ended.
void run_side_by_side(const std::vector<std::function<void()>>& tasks);

// CPU time that the calling thread has used, user and system; nanoseconds since it began.
std::int64_t thread_cpu_ns();

// The processors that this process may run on, ascending.
std::vector<std::uint32_t> allowed_processors();

// From now on the calling thread gets little of a processor that others want as well: about one part in 70 (nice 19).
void let_others_go_first();

// Places the calling thread on these processors, at least one of them allowed, and gives it a priority: -1 lets it wait
// for its turn where other threads interrupt (SCHED_BATCH), 0 changes nothing, 1 to 3 put it before all normal threads.
// kInvalid if the system does not permit that.
Status place_this_thread(const std::vector<std::uint32_t>& processors, int priority);
// Returns what that call would return for the priority, on a thread of its own.
Status check_priority(int priority);

// For waiting on another process that reports nothing, never on a thread of this one.
void pause(std::chrono::milliseconds time);
// Asks now, and again until `is_so` returns true or the time is over. Returns the last answer.
bool wait_until(int limit_ms, const std::function<bool()>& is_so);

}  // namespace kvkeep::os
