#pragma once

// Background work behind an interface: real threads in the server, a seeded single-threaded queue in simulation.

#include <functional>
#include <memory>

namespace kvkeep::os {

// Runs tasks in the order posted, one at a time. Thread safe.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual void post(std::function<void()> task) = 0;
  // Returns when everything posted before the call has run. Never call it from a task of this executor.
  virtual void drain() = 0;
};

// One thread; its destructor runs what was posted, then joins. `name` shows in debuggers (at most 15 characters).
std::unique_ptr<Executor> make_thread_executor(const char* name);

}  // namespace kvkeep::os
