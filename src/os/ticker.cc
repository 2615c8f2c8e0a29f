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
          // What a wait returns that a stop meets is not asked: libstdc++ may say that time is over.
          while (!stop.stop_requested()) {
            waiting.wait_for(lock, stop, period, [&] { return stop.stop_requested(); });
            if (!stop.stop_requested()) call();
          }
        }) {}

 private:
  std::jthread thread_;
};

}  // namespace

std::unique_ptr<Ticker> make_ticker(std::chrono::milliseconds period, std::function<void()> task) {
  return std::make_unique<ThreadTicker>(period, std::move(task));
}

}  // namespace kvkeep::os
