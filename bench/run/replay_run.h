#pragma once

// Sends the requests of one session in their order: each when its recorded time has come and everything that had ended
// before it in the recording has ended here. Requests that overlapped then overlap now.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "bench/run/interrupt.h"
#include "bench/run/server_client.h"
#include "bench/sessions/echo.h"
#include "bench/sessions/session.h"
#include "os/executor.h"

namespace kvkeep::bench {

struct ReplayRunOptions {
  ServerTarget target;
  bool fast = false;            // no pauses
  bool echo_generated = false;  // later requests carry what this server said
  std::size_t in_flight_max = 32;
  // Called from play()'s thread, also while nothing changes.
  std::function<void(std::size_t ended)> on_progress = [](std::size_t) {};
};

// One session, once. play() from one thread; it makes a thread for each request in flight.
class ReplayRun {
 public:
  // All three outlive it.
  ReplayRun(const Session& session, const ReplayRunOptions& options, Interrupt& interrupt);
  ~ReplayRun();

  // Returns when no request is under way any more: all were sent, the server is gone, or the run was interrupted.
  void play();

  // All below: after play(). One per request of the session.
  const std::vector<Exchange>& exchanges() const NO_THREAD_SAFETY_ANALYSIS { return exchanges_; }
  // The label of the request whose reply broke off and after which nobody answered; empty: the server lives.
  const std::string& killed_by() const NO_THREAD_SAFETY_ANALYSIS { return killed_by_; }
  const Echo& echo() const NO_THREAD_SAFETY_ANALYSIS { return echo_; }

 private:
  struct Worker {
    std::unique_ptr<ServerClient> client;
    std::unique_ptr<os::Executor> thread;  // last: it is joined before the client goes
  };

  bool is_over() const REQUIRES(mutex_) { return interrupt_.raised() || !killed_by_.empty(); }
  bool wait_for_turn(std::size_t place);
  bool may_send(std::size_t place) const REQUIRES(mutex_);
  Worker* take_worker();
  Json take_body(std::size_t place);
  void exchange(Worker& worker, std::size_t place, const Json& body);
  void wait_for_all();

  const Session& session_;
  const ReplayRunOptions& options_;
  Interrupt& interrupt_;
  const std::vector<std::vector<std::size_t>> ended_before_;
  std::int64_t begin_ns_ = 0;

  Mutex mutex_;
  CondVar changed_;
  std::vector<Exchange> exchanges_ GUARDED_BY(mutex_);
  std::vector<bool> ended_ GUARDED_BY(mutex_);
  std::size_t ended_count_ GUARDED_BY(mutex_) = 0;
  std::size_t in_flight_ GUARDED_BY(mutex_) = 0;
  std::string killed_by_ GUARDED_BY(mutex_);
  Echo echo_ GUARDED_BY(mutex_);
  std::vector<Worker*> idle_ GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Worker>> workers_;  // last: their threads use all of the above
};

}  // namespace kvkeep::bench
