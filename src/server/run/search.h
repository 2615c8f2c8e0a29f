#pragma once

// Looking prompts up in the shared tier while their requests wait for a place. A search begins when its request comes,
// on another thread, and only where a look-up may save enough; its request does not start before the search is over,
// and holds nobody up meanwhile. A search that takes too long is abandoned: the request goes on with what is known
// here.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "base/mutex.h"
#include "cache/shared_access.h"
#include "os/clock.h"
#include "server/run/job.h"

namespace kvkeep::cache {
class Cache;
}

namespace kvkeep::server {

// One search. Its request and the thread that searches share it.
class Search {
 public:
  // Begins now. `clock` must outlive it.
  explicit Search(os::Clock& clock) : clock_(clock), begun_ns_(clock.monotonic_ns()) {}

  // Returns true if it was answered or took too long.
  bool over() const { return answered_ || ms() > kLongestMs; }
  double ms() const { return os::elapsed_ms(begun_ns_, clock_.monotonic_ns()); }  // since it began
  // Nullopt if it took too long.
  std::optional<cache::SeekResult> result() const;
  // The request does not wait for it any more.
  void abandon() { wanted_ = false; }
  bool wanted() const { return wanted_; }
  void answer(const cache::SeekResult& result);

 private:
  // Each call to the shared tier has a deadline of its own; this one holds if the thread that searches is held up.
  static constexpr double kLongestMs = 400;

  os::Clock& clock_;
  const std::int64_t begun_ns_;
  std::atomic<bool> wanted_ = true;
  std::atomic<bool> answered_ = false;
  cache::SeekResult result_;  // written before answered_ is set
};

// Begins searches. They may end after this is gone.
class Searches {
 public:
  // Calls `wake`, from any thread, when a search is over. `cache` and `clock` must outlive this.
  Searches(cache::Cache& cache, os::Clock& clock, std::function<void()> wake);
  // From now on `wake` is not called.
  ~Searches();

  // Any thread. Returns null if no search is worth it or possible now.
  std::shared_ptr<Search> begin(const Job& job);

 private:
  struct Bell;

  cache::Cache& cache_;
  os::Clock& clock_;
  const std::shared_ptr<Bell> bell_;
};

}  // namespace kvkeep::server
