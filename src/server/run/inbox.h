#pragma once

// Everything that other threads hand to the engine thread: requests, questions and orders, finished reads, the
// order to stop; and the counters that those threads read. Thread safe.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "cache/cache_options.h"
#include "policy/next_call.h"
#include "server/run/lookup.h"

namespace kvkeep::server {

class ServedRate;
struct FoundBreak;
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

// Replies that may be open: that run, as many as there are places, and that wait.
struct InboxLimits {
  std::size_t places = 0;
  std::size_t queue = 0;
  std::size_t of_key = SIZE_MAX;  // of one Job::owner whose requests have a Job::key
  std::size_t open() const { return places + queue; }
};

// Returns how many replies an owner may have open, next to so many others that have some, while more than half of the
// queue is full: besides all places an equal part of the queue, of which a sixteenth is kept free. So one that is alone
// has nearly all of it, and another one that comes finds room and then gets each reply that ends until both have as
// much.
std::size_t share_of_queue(const InboxLimits& limits, std::size_t others);

class Inbox {
 public:
  // A prefill ahead makes room for others and counts as no open reply.
  explicit Inbox(const InboxLimits& limits);
  ~Inbox();

  // Takes all or none; all have the same key and owner. kBusy if too many replies would be open, branches included, in
  // all or of their owner, the server stops, or there are others and one of them is a prefill ahead; kInvalid if there
  // are more than may ever be open.
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
    bool ahead = false;  // it was a prefill ahead
    std::uint64_t owner = policy::kNoKey;
    std::int64_t now_ns = 0;  // by the monotonic clock, as Request::submitted_ns
    Finish how = Finish::kStop;
    JobStats stats = {};
    std::shared_ptr<const FoundBreak> found = {};  // null: it was not explained
  };
  void note_ended(const Ended& ended);  // of one reply

 private:
  Status check_room(std::size_t replies, const Job& job) const REQUIRES(mutex_);

  const InboxLimits limits_;
  std::atomic<bool> closed_ = false;    // stays so
  std::atomic<bool> stopping_ = false;  // set with mutex_ held, so that no wake-up is missed

  mutable Mutex mutex_;
  CondVar wake_;
  std::vector<std::unique_ptr<Request>> requests_ GUARDED_BY(mutex_);
  std::vector<LoadedState> loaded_ GUARDED_BY(mutex_);
  std::deque<Question> questions_ GUARDED_BY(mutex_);
  bool woken_ GUARDED_BY(mutex_) = false;
  bool left_ GUARDED_BY(mutex_) = false;
  std::size_t in_flight_ GUARDED_BY(mutex_) = 0;  // accepted and not ended
  std::size_t ahead_ GUARDED_BY(mutex_) = 0;      // of these, prefills ahead
  // Of these, by owner; those without one are not counted.
  std::unordered_map<std::uint64_t, std::size_t> of_owner_ GUARDED_BY(mutex_);
  const std::unique_ptr<ServedRate> served_ GUARDED_BY(mutex_);
  const std::unique_ptr<SchedulerStats> stats_ GUARDED_BY(mutex_);
};

}  // namespace kvkeep::server
