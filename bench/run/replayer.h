#pragma once

// Plays recorded sessions against a running server, or one that a ServerProcess runs, and fills figures.
//
// The figures are those of the replies (CountedBy::kReply): cached and prefilled tokens are the server's own claims. If
// the engine is counted, their sum must be its count. The ideal is no claim: it is counted from the requests
// (replay_counts.h), as if the server had been empty before the first session.

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "bench/report/figures.h"
#include "bench/run/interrupt.h"
#include "bench/run/replay_counts.h"
#include "bench/run/server_client.h"
#include "bench/sessions/echo.h"
#include "bench/sessions/session.h"
#include "os/executor.h"

namespace kvkeep::bench {

// Puts a picture or sound of noise wherever a body has "kvkeep-media:KIND:HASH:BYTES", the form in which kvkeep's trace
// names a file, and counts different ones in session.stand_ins. Pure.
void put_stand_ins(Session& session);

struct ReplayRunOptions {
  ServerTarget target;
  bool fast = false;            // no pauses
  bool echo_generated = false;  // later requests carry this server's replies
  std::size_t in_flight_max = 32;
  // Called on play()'s thread, even while nothing changes.
  std::function<void(const Session& session, std::size_t ended)> on_progress = [](const Session&, std::size_t) {};
};

// Sends the requests of one session in their order, once: each when its recorded time has come and every request that
// had ended before it in the recording has ended here. Requests that overlapped in the recording overlap again. One
// thread calls play(), which makes a thread for each request in flight.
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

struct ReplayOptions {
  std::string server_name;  // for the report
  ReplayRunOptions run;
  // How the server's process ended ("was killed by signal 9"), if that is known.
  std::function<std::string()> death = [] { return std::string(); };
  // Returns the ids that libllama was given so far (ServerProcess::decoded_ids()); none if they are not counted.
  std::function<std::uint64_t()> decoded_ids;
  // Returns the CPU time of the server's process so far (ServerProcess::served_cpu_seconds()); none if unknown.
  std::function<std::optional<double>()> cpu_seconds = [] { return std::optional<double>(); };
};

// Plays sessions one after the other. One thread.
class Replayer {
 public:
  // kInvalid if this is no URL, kIo if no server answers there.
  static Result<std::unique_ptr<Replayer>> make(ReplayOptions options, Interrupt& interrupt);

  // Failed requests, a server that died and other failures are problems in the figures.
  RunFigures play(const Session& session);
  // Returns true if nothing more can be played: the server is gone, or the replay was interrupted.
  bool is_over() const { return gone_ || interrupt_.raised(); }
  // Returns true if the server died, or its replies contradict the count of its engine.
  bool found_wrong() const { return gone_ || contradicted_; }

  // As the server reported at the start; "" if it did not.
  const std::string& model_name() const { return model_name_; }
  const std::string& server_version() const { return server_version_; }
  const std::string& server_field() const { return server_field_; }  // from the headers of its replies

 private:
  Replayer(ReplayOptions options, std::unique_ptr<ServerClient> client, Interrupt& interrupt);
  void add_problems(const Session& session, const ReplayRun& run, RunFigures& figures);
  void add_ideals(const Session& session, const std::vector<Exchange>& exchanges, RunFigures& figures);

  ReplayOptions options_;
  std::unique_ptr<ServerClient> client_;
  Interrupt& interrupt_;
  std::string model_name_;
  std::string server_version_;
  std::string server_field_;
  bool gone_ = false;
  bool contradicted_ = false;
  std::uint64_t decoded_ids_ = 0;  // at the end of the previous session
  ReplayIdeal ideal_;
  bool said_no_tokens_ = false;
};

}  // namespace kvkeep::bench
