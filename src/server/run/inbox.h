#pragma once

// Everything that other threads hand to the engine thread: requests, questions and orders, finished reads, the
// order to stop; and the counters that those threads read. Thread safe.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "cache/cache_options.h"
#include "server/run/lookup.h"

namespace kvkeep::server {

class QueueRoom;
class ServedRate;
struct FoundBreak;
struct QueueLimits;
struct Request;
struct SchedulerNow;
struct SchedulerStats;

// A finished read.
struct LoadedState {
  Request* request;  // null: the read was for the audit
  cache::LoadResult result;
};

// A call on the engine thread between two model calls; `stopped` says that the server stops instead.
using Question = std::function<void(const Error* stopped)>;

class Inbox {
 public:
  explicit Inbox(const QueueLimits& limits);
  ~Inbox();

  // Takes all or none; all have the same key and owner. Errors as QueueRoom::check, branches included; kBusy also if
  // the server stops, or if there are others and one of these is a prefill ahead.
  Status submit(std::vector<std::unique_ptr<Request>> requests);
  Status ask(Question question);  // kBusy if too many wait, or the server stops
  void deliver(LoadedState loaded);
  void wake();       // ends a wait in collect(), or the next one
  void note_left();  // the same, and says that a client may have left
  void close();      // further requests are refused (kBusy)
  bool closed() const { return closed_; }
  void stop();
  bool stopping() const { return stopping_; }
  bool idle() const;  // all requests have ended
  SchedulerStats stats(std::int64_t now_ns) const;
  template <typename Update>
  void count(Update update) {
    MutexLock lock(mutex_);
    update(*stats_);
  }

  // ---- engine thread ----

  struct Arrived {
    std::vector<std::unique_ptr<Request>> requests;
    std::vector<LoadedState> loaded;
    bool left = false;  // note_left() was called
    bool any() const { return !requests.empty() || !loaded.empty(); }
  };
  // Returns everything that came since the last call. If nothing came, waits for at most `wait`, or until stop().
  Arrived collect(std::chrono::milliseconds wait);
  void note_now(const SchedulerNow& now);
  void await_loaded(std::chrono::milliseconds wait);       // for at most `wait`, until a read is done
  std::vector<Question> take_questions(std::size_t most);  // the oldest first
  struct Ended {
    bool ahead = false;       // it was a prefill ahead
    std::uint64_t owner = 0;  // Job::owner
    std::int64_t now_ns = 0;  // by the monotonic clock, as Request::submitted_ns
    Finish how = Finish::kStop;
    JobStats stats = {};
    std::shared_ptr<const FoundBreak> found = {};  // null: it was not explained
  };
  void note_ended(const Ended& ended);  // of one reply

 private:
  std::atomic<bool> closed_ = false;    // stays so
  std::atomic<bool> stopping_ = false;  // set with mutex_ held, so that no wake-up is missed

  mutable Mutex mutex_;
  CondVar wake_;
  std::vector<std::unique_ptr<Request>> requests_ GUARDED_BY(mutex_);
  std::vector<LoadedState> loaded_ GUARDED_BY(mutex_);
  std::deque<Question> questions_ GUARDED_BY(mutex_);
  bool woken_ GUARDED_BY(mutex_) = false;
  bool left_ GUARDED_BY(mutex_) = false;
  const std::unique_ptr<QueueRoom> room_ GUARDED_BY(mutex_);
  const std::unique_ptr<ServedRate> served_ GUARDED_BY(mutex_);
  const std::unique_ptr<SchedulerStats> stats_ GUARDED_BY(mutex_);
};

}  // namespace kvkeep::server
