#pragma once

// Something to be done again and again, at about the same distance.

#include <chrono>
#include <functional>
#include <memory>

namespace kvkeep::os {

// Ends, on destruction, before the next call; waits for one that runs.
class Ticker {
 public:
  virtual ~Ticker() = default;
};

// Calls `task` every `period` on a thread of its own. The first call comes after one.
std::unique_ptr<Ticker> make_ticker(std::chrono::milliseconds period, std::function<void()> task);

}  // namespace kvkeep::os
