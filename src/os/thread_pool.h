#pragma once

// Several threads that share one queue of tasks.

#include <cstddef>
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

}  // namespace kvkeep::os
