#pragma once

// Requests for embeddings, next to the scheduler's: they share its thread, not its memory. Each turn computes one
// input, or one slice of a long one, so that running replies wait for no more than that, and while there are any, for
// no slice of prefill in the same round; jobs take turns, so that one text does not wait for a thousand others.
//
// Nothing here touches a conversation: the embedder has a memory of its own (engine/embedder.h).

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "engine/embedder.h"
#include "os/clock.h"

namespace kvkeep::server {

struct EmbeddingJob {
  std::string id;                            // as the client knows it; for the log
  std::string kind;                          // "embeddings" or "rerank", for the log
  std::vector<std::vector<TokenId>> inputs;  // one or more, each of 1 .. longest_input tokens
};

struct EmbeddingStats {
  std::size_t inputs = 0;
  std::size_t tokens = 0;
  double queue_ms = 0;    // from submit to the first turn
  double compute_ms = 0;  // in the model; less than the time that passed if other work had turns
};

// The values of each input: one vector, or one per token without pooling.
using InputValues = std::vector<std::vector<float>>;

// Both calls come from the engine thread and must return at once.
class EmbeddingSink {
 public:
  virtual ~EmbeddingSink() = default;
  virtual void on_done(Result<InputValues> values, const EmbeddingStats& stats) = 0;  // the last call
  virtual bool gone() const = 0;  // returns true if nobody reads the reply any more
};

// Since the start, of jobs that have ended.
struct EmbeddingCounts {
  std::uint64_t requests = 0;
  std::uint64_t inputs = 0;
  std::uint64_t tokens = 0;
  double compute_ms = 0;
};

class Embeddings {
 public:
  static constexpr std::size_t kMostJobs = 256;        // that wait or run; more are refused (kBusy)
  static constexpr std::size_t kMostTokens = 4 << 20;  // of all these jobs together, if there are several

  // Both must outlive this.
  Embeddings(engine::Embedder& embedder, os::Clock& clock);
  ~Embeddings();

  const engine::EmbedderDescription& description() const { return embedder_.description(); }
  // `wake` is called after each submit(), with no lock held. Set it before the first one.
  void wake_by(std::function<void()> wake) { wake_ = std::move(wake); }

  // Any thread. kBusy if too much waits or the server stops; otherwise the sink gets exactly one on_done.
  Status submit(EmbeddingJob job, std::shared_ptr<EmbeddingSink> sink);
  // Any thread. Further jobs are refused (kBusy).
  void close();
  // Any thread. Interrupts the input that is being computed; the engine thread then calls end().
  void stop();
  // Any thread.
  EmbeddingCounts counts() const;
  // Any thread. Returns true if there is a job that has not ended.
  bool any() const { return jobs_in_ > 0; }

  // ---- engine thread ----

  // Computes at most one slice; if others `contend` for the same time, in every second call. Returns true if it did.
  bool turn(bool contended);
  // Ends all jobs with an error.
  void end();

 private:
  struct Running;
  void collect();
  void drop_gone();
  void compute();
  Status advance(Running& running);
  void finish(std::unique_ptr<Running> running, Status how);

  engine::Embedder& embedder_;
  os::Clock& clock_;
  std::function<void()> wake_ = [] {};
  std::atomic<std::size_t> jobs_in_ = 0;
  std::atomic<bool> closed_ = false;
  std::atomic<bool> stopping_ = false;

  mutable Mutex mutex_;
  std::vector<std::unique_ptr<Running>> arrived_ GUARDED_BY(mutex_);
  std::size_t tokens_in_ GUARDED_BY(mutex_) = 0;
  EmbeddingCounts counts_ GUARDED_BY(mutex_);

  // Engine thread only: the first has the turn.
  std::deque<std::unique_ptr<Running>> jobs_;
  bool had_turn_ = false;  // the last one, while others contended for it
};

}  // namespace kvkeep::server
