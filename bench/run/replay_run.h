#pragma once

// Sends the requests of one session in their order: each when its recorded time has come and every request that had
// ended before it in the recording has ended here. Requests that overlapped in the recording overlap again.

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
  bool echo_generated = false;  // later requests carry this server's replies
  std::size_t in_flight_max = 32;
  // Called on play()'s thread, even while nothing changes.
  std::function<void(const Session& session, std::size_t ended)> on_progress = [](const Session&, std::size_t) {};
};

// Plays one session once. One thread calls play(), which makes a thread for each request in flight.
class ReplayRun {
 public:
  // All three must outlive this.
  ReplayRun(const Session& session, const ReplayRunOptions& options, Interrupt& interrupt);
  ~ReplayRun();

  // Returns when no request is under way: all were sent, the server is gone, or the run was interrupted.
  void play();

  // Call the functions below after play(). One exchange per request of the session.
  const std::vector<Exchange>& exchanges() const NO_THREAD_SAFETY_ANALYSIS { return exchanges_; }
  // The label of the request whose reply broke off and after which the server did not answer; "": the server lives.
  const std::string& killed_by() const NO_THREAD_SAFETY_ANALYSIS { return killed_by_; }
  const Echo& echo() const NO_THREAD_SAFETY_ANALYSIS { return echo_; }

 private:
  struct Worker {
    std::unique_ptr<ServerClient> client;
    std::unique_ptr<os::Executor> thread;  // last, so that it is joined before the client goes
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
  std::vector<std::unique_ptr<Worker>> workers_;  // last, because their threads use all members above
};

}  // namespace kvkeep::bench
