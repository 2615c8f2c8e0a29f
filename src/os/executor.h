#pragma once

// An interface to background work: real threads in the server, a seeded single-threaded queue in simulation.

#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <type_traits>
#include <utility>

namespace kvkeep::os {

// Runs tasks in the order posted: one at a time, unless it was made with several threads. Thread safe.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual void post(std::function<void()> task) = 0;
  // Returns when all tasks posted before the call have run. Never call it from a task of this executor.
  virtual void drain() = 0;
};

// Makes one thread, or several on which tasks run side by side, begun in the order posted; its destructor runs posted
// tasks, then joins. `name` shows in debuggers (at most 15 characters).
std::unique_ptr<Executor> make_thread_executor(const char* name, std::size_t threads = 1);

// Runs `task` on the executor, waits for it, and returns its result or throws its exception. Never call it from a task
// of this executor.
template <typename Task>
std::invoke_result_t<Task> call_on(Executor& executor, Task task) {
  // std::function copies its target, which a packaged_task forbids.
  const auto packaged = std::make_shared<std::packaged_task<std::invoke_result_t<Task>()>>(std::move(task));
  auto done = packaged->get_future();
  executor.post([packaged] { (*packaged)(); });
  return done.get();
}

}  // namespace kvkeep::os
