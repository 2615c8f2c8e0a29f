#pragma once

// The idle audit: now and then, while no request runs, a piece of a stored path is computed anew, and the model's
// answer after the stored state is compared with its answer after the computed one (policy/audit.h, docs/audit.md).
//
// Checksums tell that bytes are those that were written. They do not tell that the written bytes were right: a bug, a
// driver, flipped bits or another program can store state that is not the model's, and nothing would notice. The audit
// does, if that state changes what the model says.
//
// One audit: restore up to the piece's end and answer; go back to its beginning, compute the piece and answer again. If
// the answers agree within noise, the audit ends. If not, both are done once more, and the second computation takes
// much smaller steps, which shows how much of the difference is noise. A verdict of wrong is final: see
// Cache::distrust.
//
// A unit of work is at most one call of the model, one read, or one restore of what was read; the owner calls step()
// while there is nothing else to do, and abandon() as soon as there is. An audit uses a free sequence and free cells;
// without them it does not run. Not thread safe: engine thread only.

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
#include "os/clock.h"
#include "policy/audit.h"
#include "server/run/restore.h"

namespace kvkeep::engine {
class Engine;
struct BatchToken;
}  // namespace kvkeep::engine

namespace kvkeep::cache {
class Cache;
}

namespace kvkeep::server {

struct AuditOptions {
  double every_ms = 0;      // least time between the beginnings of two audits; 0: never
  double idle_ms = 30'000;  // an audit begins after this long without a request
  std::uint64_t seed = 0;   // chooses the paths and pieces
  policy::AuditLimits limits = {};
  std::string_view directory = {};  // shown in the command that removes stored state; empty: the default one
};

enum class AuditOutcome {
  kAgreed,     // stored state is what the model computes
  kWrong,      // stored state is not what the model computes
  kUnclear,    // the answers differ more than usual, but so do two answers after computing
  kAbandoned,  // a request came
  kNoRoom,     // no free sequence, or too few free cells
  kNothing,    // nothing stored, or no piece short enough
  kFailed,     // stored state could not be read or restored (the cache knows), or the model failed
};
inline constexpr std::size_t kAuditOutcomes = 7;
std::string_view to_string(AuditOutcome outcome);

// How often audits ended with each outcome.
class AuditCounts {
 public:
  std::uint64_t operator[](AuditOutcome outcome) const { return counts_[static_cast<std::size_t>(outcome)]; }
  void add(AuditOutcome outcome) { ++counts_[static_cast<std::size_t>(outcome)]; }

 private:
  std::array<std::uint64_t, kAuditOutcomes> counts_ = {};
};

// The result of one audit.
struct AuditReport {
  AuditOutcome outcome = AuditOutcome::kNothing;
  std::int64_t ended_ns = 0;              // wall clock
  TokenRange piece = {};                  // of the path; empty: the audit ended before it chose a piece
  bool from_disk = false;                 // some of the stored state was read from disk
  std::optional<double> difference = {};  // policy::difference of a restored and a computed answer
  std::optional<double> noise = {};       // between two answers of the same kind, if both were repeated
  double ms = 0;                          // from the beginning of the audit to its end
};

class Audit {
 public:
  // Reads are about `load_bytes` each. `on_loaded` is called by any thread when a read is done; the result must be
  // given to loaded() on the engine thread, in any case and before this object ends.
  Audit(AuditOptions options, engine::Engine& engine, cache::Cache& cache, os::Clock& clock, ByteCount load_bytes,
        std::function<void(cache::LoadResult)> on_loaded);

  // A request came: idle time begins anew, and an audit under way ends as with abandon().
  std::optional<AuditReport> disturb();
  // Ends the audit under way and clears its sequence. Returns a report if there was one.
  std::optional<AuditReport> abandon();
  // Returns true if step() has something to do now; false while it waits for a read.
  bool due() const;
  // Begins an audit on `free`, if it is time and there is a free sequence, or continues one, by one unit of work that
  // computes at most `slice_tokens`. Returns a report if the audit ended.
  std::optional<AuditReport> step(std::optional<SeqId> free, std::size_t slice_tokens);
  void loaded(const cache::LoadResult& result);
  bool loading() const { return loading_; }

 private:
  enum class Answer : std::uint8_t { kRestored, kComputed, kRestoredAgain, kComputedAgain };
  static constexpr std::size_t kAnswers = 4;

  // The piece to look at, and its path.
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
    bool suspected = false;  // by an earlier audit, which was abandoned
    bool ready = false;      // the sequence is where the answer's own part begins: after the piece, or before it
    Restore restore = {};    // up to that position
    bool restores = false;
    std::array<std::vector<float>, kAnswers> logits = {};
    AuditReport report = {};
  };
  using Ended = std::optional<AuditOutcome>;  // nullopt: the audit continues

  bool enabled() const;
  Ended begin(std::optional<SeqId> free);
  bool find_subject(SeqId seq);
  bool look_at(SeqId seq, Subject subject);
  // A piece of text: the pixels that pictures were computed from are not kept. nullopt if there is none.
  std::optional<TokenRange> choose_text();
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
  std::optional<Subject> suspect_;  // of an audit that was abandoned while it repeated its answers
  bool loading_ = false;            // perhaps for an audit that was abandoned
  std::uint64_t random_ = 0;
  std::int64_t busy_ns_ = 0;   // when the last request came
  std::int64_t begun_ns_ = 0;  // when the last audit began
};

}  // namespace kvkeep::server
