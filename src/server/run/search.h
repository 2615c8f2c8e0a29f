#pragma once

// Looking prompts up in the shared tier while their requests wait for a place. A search is ordered when its request
// comes, and only where a look-up may save enough: a request whose state is all here waits for none. Its request does
// not start before the search is over, and holds nobody up meanwhile. A search whose turn does not come soon, or that
// takes too long from then on, is abandoned: the request goes on with what is known here.

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
  // It is ordered now, for a request to which an answer within `patience_ms` is worth its time. `clock` must outlive
  // it.
  Search(os::Clock& clock, double patience_ms)
      : clock_(clock), longest_turn_ms_(kTurnShare * patience_ms), ordered_ns_(clock.monotonic_ns()) {}

  // Its turn has come. Returns false if its request does not wait for it any more.
  bool begin();
  // Returns true if it was answered, or its turn did not come in time, or it took too long since then.
  bool over() const;
  double ms() const { return os::elapsed_ms(ordered_ns_, clock_.monotonic_ns()); }  // since it was ordered
  // Nullopt if it took too long.
  std::optional<cache::SeekResult> result() const;
  // The request does not wait for it any more.
  void abandon() { wanted_ = false; }
  void answer(const cache::SeekResult& result);

 private:
  // Searches of requests that came before may all take as long as they may: two of them are worth waiting for.
  static constexpr double kTurnShare = 2;

  os::Clock& clock_;
  const double longest_turn_ms_;
  const std::int64_t ordered_ns_;
  std::atomic<std::int64_t> begun_ns_ = 0;  // 0: its turn has not come
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
