#pragma once

// Background work of several executors on one thread: a seed chooses whose task is next. Each executor's own tasks keep
// their order, as with threads.

#include <random>
#include <utility>
#include <vector>

#include "testing/sim/sim_executor.h"

namespace kvkeep::sim {

// Not thread safe; the executors must outlive it.
class SeededExecutor {
 public:
  SeededExecutor(std::vector<SimExecutor*> executors, std::uint64_t seed)
      : executors_(std::move(executors)), random_(seed) {}

  // Returns false if nothing was waiting.
  bool run_one() {
    std::vector<SimExecutor*> busy;
    for (SimExecutor* executor : executors_) {
      if (executor->waiting() > 0) busy.push_back(executor);
    }
    return !busy.empty() && busy[random_() % busy.size()]->run_one();
  }
  void run(std::size_t tasks) {
    while (tasks-- > 0 && run_one()) {}
  }
  // Runs tasks until none waits on this executor; the others make progress meanwhile, or do not.
  void run_until_idle(const SimExecutor& executor) {
    while (executor.waiting() > 0) run_one();
  }

 private:
  const std::vector<SimExecutor*> executors_;
  std::mt19937_64 random_;
};

}  // namespace kvkeep::sim
