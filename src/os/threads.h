#pragma once

// Threads for what no simulation replaces: many requests at once, something again and again, and waiting.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace kvkeep::os {

// Thread safe. Tasks begin in the order posted and run side by side; an exception out of a task ends the program.
class ThreadPool {
 public:
  // Runs what was posted, then joins. Not from a task of this pool.
  virtual ~ThreadPool() = default;
  // Unbounded: the caller bounds what it posts.
  virtual void post(std::function<void()> task) = 0;
};

// `name` shows in debuggers (at most 15 characters).
std::unique_ptr<ThreadPool> make_thread_pool(std::size_t threads, const char* name);

// Ends, on destruction, before the next call; waits for one that runs.
class Ticker {
 public:
  virtual ~Ticker() = default;
};

// Calls `task` every `period` on a thread of its own. The first call comes after one.
std::unique_ptr<Ticker> make_ticker(std::chrono::milliseconds period, std::function<void()> task);

// CPU time that the calling thread has used, user and system; nanoseconds since it began.
std::int64_t thread_cpu_ns();

// For what another process does and nothing tells of, not for anything within this one.
void pause(std::chrono::milliseconds time);
// Asks now, and again until it is so or the time is over. Returns whether it is so.
bool wait_until(int limit_ms, const std::function<bool()>& is_so);

}  // namespace kvkeep::os
