#include "os/ticker.h"

#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

namespace kvkeep::os {
namespace {

class ThreadTicker final : public Ticker {
 public:
  ThreadTicker(std::chrono::milliseconds period, std::function<void()> task)
      : thread_([period, call = std::move(task)](const std::stop_token& stop) {
          std::mutex mutex;
          std::condition_variable_any waiting;
          std::unique_lock lock(mutex);
          while (!waiting.wait_for(lock, stop, period, [&] { return stop.stop_requested(); })) call();
        }) {}

 private:
  std::jthread thread_;
};

}  // namespace

std::unique_ptr<Ticker> make_ticker(std::chrono::milliseconds period, std::function<void()> task) {
  return std::make_unique<ThreadTicker>(period, std::move(task));
}

}  // namespace kvkeep::os
