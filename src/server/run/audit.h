#pragma once

// The idle audit: now and then, when nobody asks anything, a piece of a stored path is computed anew, and the model's
// answers after it and after what was stored are compared (policy/audit.h, docs/audit.md).
//
// Sums tell that bytes are those that were written. They do not tell that these were right: a bug, a driver, memory
// that flips bits or another program's hand can store state that is not the model's, and nobody would notice. The audit
// does, if it changes what the model says.
//
// One audit: restore up to the piece's end and answer; go back to its beginning, compute the piece and answer again. If
// both agree within noise, that is all. If not, both are done once more, the second time computing in much smaller
// steps, which shows how much of the difference is noise. What is wrong then is final: see Cache::distrust.
//
// It works in units of at most one call of the model, one read, or one restore of what was read; its owner calls
// step() while nothing else is to do, and abandon() as soon as something is. It uses a sequence and cells that nobody
// holds, and none if there are none. Not thread safe: engine thread only.

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cache/cache_options.h"
#include "cache/lease.h"
#include "engine/engine.h"
#include "os/clock.h"
#include "policy/audit.h"
#include "server/run/restore.h"

namespace kvkeep::cache {
class Cache;
}

namespace kvkeep::server {

struct AuditOptions {
  double every_ms = 0;      // least time between the beginnings of two; 0: never
  double idle_ms = 30'000;  // nobody asked anything for so long
  std::uint64_t seed = 0;   // what is looked at
  policy::AuditLimits limits = {};
  std::string_view directory = {};  // named to who is to remove what is stored; empty: the default one
};

enum class AuditOutcome {
  kAgreed,     // what is stored is what the model computes
  kWrong,      // it is not
  kUnclear,    // apart by more than is usual, but so are two answers after computing
  kAbandoned,  // a request came
  kNoRoom,     // no free sequence, or too few free cells
  kNothing,    // nothing stored that could be looked at: nothing at all, or no piece short enough
  kFailed,     // could not be read or restored (the cache knows), or the model failed
};
inline constexpr std::size_t kAuditOutcomes = 7;
std::string_view to_string(AuditOutcome outcome);

// How often each was the end of an audit.
class AuditCounts {
 public:
  std::uint64_t operator[](AuditOutcome outcome) const { return counts_[static_cast<std::size_t>(outcome)]; }
  void add(AuditOutcome outcome) { ++counts_[static_cast<std::size_t>(outcome)]; }

 private:
  std::array<std::uint64_t, kAuditOutcomes> counts_ = {};
};

// What one audit did.
struct AuditReport {
  AuditOutcome outcome = AuditOutcome::kNothing;
  std::int64_t ended_ns = 0;              // wall clock
  TokenRange piece = {};                  // of the path; empty: it did not come so far
  bool from_disk = false;                 // some of it was read there
  std::optional<double> difference = {};  // of a restored and a computed answer: policy::difference
  std::optional<double> noise = {};       // of two answers of the same kind, if all was done twice
  double ms = 0;                          // from its beginning to its end
};

class Audit {
 public:
  // `load_bytes` are read at a time. `on_loaded` is called by any thread when a read is done; what it is given must
  // come to loaded() on the engine thread, in any case and before this ends.
  Audit(AuditOptions options, engine::Engine& engine, cache::Cache& cache, os::Clock& clock, ByteCount load_bytes,
        std::function<void(cache::LoadResult)> on_loaded);

  // Somebody asks something now: idle time begins anew, and an audit under way ends. As abandon().
  std::optional<AuditReport> disturb();
  // Ends the audit under way; its sequence is empty again. The report: there was one.
  std::optional<AuditReport> abandon();
  // step() has something to do now; false while it waits for a read.
  bool due() const;
  // Begins an audit on `free`, if it is time and there is one, or goes on with it: one unit of work, of at most
  // `slice_tokens` computed. The report: it ended.
  std::optional<AuditReport> step(std::optional<SeqId> free, std::size_t slice_tokens);
  void loaded(const cache::LoadResult& result);
  bool loading() const { return loading_; }

 private:
  enum class Answer : std::uint8_t { kRestored, kComputed, kRestoredAgain, kComputedAgain };
  static constexpr std::size_t kAnswers = 4;

  // What is looked at.
  struct Subject {
    cache::StoredPath path;
    TokenRange piece;
  };
  // The audit under way.
  struct Work {
    SeqId seq;
    Subject subject;
    std::shared_ptr<cache::Lease> lease;
    Answer answer = Answer::kRestored;
    bool load_failed = false;
    bool suspected = false;  // by an audit before, which was abandoned
    bool stands = false;     // the sequence, where the answer's own part begins: behind the piece or before it
    Restore restore = {};    // up to there
    bool restores = false;
    std::array<std::vector<float>, kAnswers> logits = {};
    AuditReport report = {};
  };
  using Ended = std::optional<AuditOutcome>;  // nullopt: it goes on

  bool enabled() const;
  Ended begin(std::optional<SeqId> free);
  bool find_subject(SeqId seq);
  bool look_at(SeqId seq, Subject subject);
  Ended take_lease();
  bool fits() const;
  Ended go_on(std::size_t slice_tokens);
  Ended approach(Position goal);
  void go_back(Position goal);
  Ended put(const RestoreUnit& unit);
  Ended compute(std::size_t slice_tokens);
  Ended decode(const std::vector<engine::BatchToken>& batch);
  Ended ask();
  Ended next_answer();
  AuditOutcome verdict();
  AuditReport end(AuditOutcome outcome);
  std::uint64_t random();
  const std::vector<float>& logits(Answer answer) const { return work_->logits[static_cast<std::size_t>(answer)]; }

  const AuditOptions options_;
  engine::Engine& engine_;
  cache::ModelMemory& memory_;
  cache::Cache& cache_;
  os::Clock& clock_;
  const ByteCount load_bytes_;
  const std::function<void(cache::LoadResult)> on_loaded_;

  std::optional<Work> work_;
  std::optional<Subject> suspect_;  // of an audit that was abandoned while it was done again
  bool loading_ = false;            // perhaps for an audit that was abandoned
  std::uint64_t random_ = 0;
  std::int64_t busy_ns_ = 0;   // when somebody asked something last
  std::int64_t begun_ns_ = 0;  // the last audit
};

}  // namespace kvkeep::server
