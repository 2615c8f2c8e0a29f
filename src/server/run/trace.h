#pragma once

// One request's history, as plain data: assembled on the engine thread while the request runs, handed over at its end.
// Nothing here is made unless SchedulerOptions::trace asks for it.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/types.h"
#include "cache/cache_options.h"
#include "format/segment_file.h"
#include "os/clock.h"
#include "policy/cached_prefix.h"
#include "policy/cut.h"
#include "policy/restore.h"
#include "server/run/audit.h"
#include "server/run/job.h"

namespace kvkeep::server {

// The facts about a request that only the HTTP side knows. Immutable.
struct RequestOrigin {
  std::string method;
  std::string path;
  std::string client;  // the name of its program; "": it does not say
  std::string model;   // as the client named it
  // Fields that name a session or a version of the API; never keys.
  std::vector<std::pair<std::string, std::string>> headers;
  std::string user;                         // "": not sent
  std::string prompt_cache_key;             // "": not sent
  std::vector<std::string> ignored_fields;  // fields of the body that no dialect knows
  // Private, only with --trace-prompts:
  bool with_prompt = false;
  bool with_media = false;        // pictures and sounds, too, instead of their hashes
  std::string body;               // as it was sent
  std::vector<std::string> stop;  // stop strings, which the reply's text does not contain
};

// State that was captured.
struct TraceCut {
  Position at = {};               // where the sequence ended
  policy::CutReason reason = {};  // why it was captured
  format::PartKind kind = format::PartKind::kRows;
  std::size_t tokens = 0;  // rows: how many
  ByteCount bytes = {};
  double ms = 0;         // on the engine thread
  bool complete = true;  // false: the cache did not take all of it
  bool idle = false;     // the sequence was idle
};

// The prompt and the nearest known prompt, around the first token that differs.
struct Difference {
  Position at;                  // of that token
  Position begin;               // of the first token in both runs
  std::vector<TokenId> prompt;  // up to kAround tokens before `at`, the token, kAround after
  std::vector<TokenId> cached;
  bool in_memory = false;        // the known one is a sequence of the model's memory, not of the cache
  std::size_t known_beyond = 0;  // tokens of the known one from `at` to its end
  static constexpr std::size_t kAround = 8;
};

// Why prefill begins where it begins.
struct Explanation {
  std::string_view start;             // what is done with the model's memory: "fresh", "in-place", "fork", "wait"
  std::optional<Position> text_from;  // in the effective prompt: the first sampled id that replaces others of its text
  Position known;                     // how many tokens of the prompt were known, wherever their state is
  std::vector<policy::Candidate> candidates;  // at most kMostCandidates
  std::size_t candidates_left_out = 0;
  format::PartKind restorable_kind = format::PartKind::kPoint;  // the kind of its restorable candidates
  policy::RestoreMode restore = policy::RestoreMode::kAuto;
  policy::Rates rates;
  std::optional<Difference> difference;  // none: the prompt only continues the known one, or nothing is known
  static constexpr std::size_t kMostCandidates = 256;
};

struct RequestTrace {
  std::string id;
  std::string kind;
  std::shared_ptr<const RequestOrigin> origin;  // null: unknown
  bool cache_prompt = true;
  Tenant tenant = kNoTenant;
  std::int64_t arrived_ns = 0;  // by the wall clock
  std::size_t in_flight = 1;    // requests that had not ended when it came, including itself
  JobStats stats;
  std::size_t sent_tokens = 0;  // length of the prompt as it was sent; stats are those of the effective prompt
  bool started = false;         // it got its place in the model's memory; if not, stats.miss means nothing
  Explanation explanation;      // by its first start
  std::uint32_t set_aside = 0;  // how often it gave its cells to another request
  std::vector<TraceCut> cuts;   // at most kMostCuts, including those of idle sequences since the previous line
  std::size_t cuts_left_out = 0;
  ByteCount stored_bytes;  // in all cuts of its own
  double stored_ms = 0;
  Finish finish = Finish::kError;
  std::string error;                             // with Finish::kError
  std::shared_ptr<const FoundBreak> found = {};  // why no more was reused; null: it never began
  std::vector<TokenId> reply;                    // only with RequestOrigin::with_prompt
  static constexpr std::size_t kMostCuts = 1024;

  void add(const TraceCut& cut);
};

// Receives the trace of each request and of each audit, on the engine thread; must return at once.
class TraceSink {
 public:
  virtual ~TraceSink() = default;
  virtual void on_request(RequestTrace trace) = 0;
  virtual void on_audit(const AuditReport& report) = 0;
};

struct EndedRequest;

// Makes traces while requests run, and hands them over. Engine thread only, but for begin().
class RequestTraces {
 public:
  // With a null `sink` no traces are made. `sink` and `clock` must outlive this.
  RequestTraces(TraceSink* sink, os::Clock& clock) : sink_(sink), clock_(clock) {}

  // Begins the trace of a new request; returns null if no trace is wanted.
  std::unique_ptr<RequestTrace> begin() const;
  // State of the request's sequence was captured; null: of an idle one, and the next trace to end has the cut.
  void add(RequestTrace* request, TraceCut cut);
  // `reply` has the sampled tokens. `trace` may be null.
  void end(std::unique_ptr<RequestTrace> trace, const Job& job, const EndedRequest& ended, TokenSpan reply);

 private:
  TraceSink* const sink_;
  os::Clock& clock_;
  std::vector<TraceCut> idle_cuts_;  // of idle sequences, since the last trace
};

// Where a known run of tokens leaves the prompt: `next` are its tokens from `at` on, none if it ends there.
std::optional<Difference> difference_at(Position at, TokenSpan prompt, TokenSpan next, bool in_memory);

}  // namespace kvkeep::server
