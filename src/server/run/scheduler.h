#pragma once

// The scheduler: a continuous batch over one engine.
//
// One thread runs run() and owns the engine. Each round: decode steps of all running requests in one call, then one
// bounded slice of a request that prefills; or both in one call, where that was measured to be faster (calls.h).
// policy/next_call.h chooses the next call, policy/plan.h what a request reuses; the scheduler carries it out.
// A request whose prompt shares more with one that prefills than is there now waits for that part (awaited_prefix.h),
// so that requests which arrive together share what the first of them computes. Sequences stay in the model's memory
// after their reply, captured, until cells or sequence numbers run short; then the least recently used leaves.
//
// Rows of every decode call that returned kOk stay valid, even if their request then ends; after kAborted or kFailed
// the sequences of that call are dropped and rebuilt from captured state.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "os/clock.h"
#include "server/run/audit.h"
#include "server/run/inbox.h"
#include "server/run/lookup.h"
#include "server/run/sequences.h"
#include "server/run/trace.h"

namespace kvkeep::engine {
class Engine;
class Projector;
struct BatchToken;
enum class DecodeStatus;
}  // namespace kvkeep::engine

namespace kvkeep::cache {
class Cache;
}
namespace kvkeep::index {
class TokenTexts;
}
namespace kvkeep::policy {
enum class DecodeWithPrefill;
struct ScheduleView;
}  // namespace kvkeep::policy

namespace kvkeep::server {

class BreakFinder;
class Calls;
class CellLayout;
class CutPlanner;
class Embeddings;
class EncodedMedia;
class Places;
class RequestQueue;
class Restorer;
class Schedule;
class Searches;
struct ExplainOptions;
struct ModelCall;
struct Overdue;
struct Request;
struct RestoreTurn;
struct SchedulerStats;

struct SchedulerOptions {
  std::size_t parallel = 4;          // requests that run at a time; others wait
  std::size_t queue_limit = 4'096;   // replies that may wait for a place; more are refused (kBusy)
  std::size_t key_limit = SIZE_MAX;  // replies of one Job::key that may wait and run; more are refused as well
  std::optional<std::size_t> queue_tokens = {};  // of all prompts that wait and run; empty: queue_limits() decides
  double slice_ms = 150;  // of prefill while others decode, prefill or wait, about; 0: as long as the batch allows
  std::size_t capture_prefilled_tokens = 512;  // prefilled tokens between captures, or one slice if that is longer
  std::size_t pinned_slice_tokens = 0;         // > 0: slices end at multiples of it, however long they take
  policy::DecodeWithPrefill decode_with_prefill = {};  // in one call or two; by default two
  double ahead_slice_ms = 100;             // of a prefill ahead, by the rate so far: a request that comes waits for one
  std::size_t capture_every_tokens = 256;  // decoded tokens between captures
  // Slices of windowed models are at least this long, however small the window: no position between the windows of two
  // slices is restorable, but short slices prefill slower.
  std::size_t least_window_slice_tokens = 512;
  ByteCount load_window = mebibytes(256);  // read from disk at a time, and restored before more is read
  std::int64_t idle_to_live_ns = 0;  // conversations idle for this long leave memory; 0: when others need the room
  policy::RestoreMode restore = policy::RestoreMode::kAuto;
  policy::CutOptions cuts = {};  // for models that need more than rows: where state is captured
  // Both outlive the scheduler; null: prompts match by ids only, and places where they may part are not found.
  const index::TokenTexts* texts = nullptr;
  const index::TokenTexts* likely_texts = nullptr;
  bool shift_context = false;               // a reply that fills the context goes on (context_shift.h)
  bool fine_points = false;                 // also where they may part, as far as memory has room: see CutView::fine
  TraceSink* trace = nullptr;               // receives a trace of each request; null: none is made
  const ShowTokens* show_tokens = nullptr;  // of prompts in the log; null: none, they are private. Outlives this
  const ExplainOptions* explain = nullptr;  // null: no request is explained. Outlives the scheduler
  AuditOptions audit = {};                  // by default no audit runs
  Embeddings* embeddings = nullptr;         // have a turn in each round; null: there are none
  engine::Projector* projector = nullptr;   // of pictures and sounds, outlives the scheduler; null: no prompt has any
};

class Scheduler {
 public:
  Scheduler(SchedulerOptions options, engine::Engine& engine, cache::Cache& cache, os::Clock& clock);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Any thread. Takes all or none. kBusy if the queue is full, the server stops, or a job is a prefill ahead while
  // there are others. Otherwise each sink gets exactly one on_done.
  Status submit(std::vector<Submission> submissions);
  Status submit(Job job, std::shared_ptr<JobSink> sink) {
    std::vector<Submission> one;  // a braced list would copy the job
    one.push_back({std::move(job), {std::move(sink)}});
    return submit(std::move(one));
  }
  // Any thread. Asks how much the prompt (not empty) would reuse now; changes nothing, not even recency. kBusy if too
  // many questions wait or the server stops. Otherwise the sink gets exactly one on_answer, between two model calls.
  Status inspect(InspectedPrompt prompt, std::shared_ptr<InspectionSink> sink) {
    return inbox_.ask([this, asked = std::move(prompt), sink = std::move(sink)](const Error* stopped) {
      if (stopped != nullptr) return sink->on_answer(*stopped);
      if (!sink->gone()) sink->on_answer(lookup_.inspect(asked, terms()));
    });
  }
  // Any thread. kBusy as inspect(). Otherwise `task` runs once, on the engine thread between two model calls; it gets
  // an error if the server stops instead. orders.h has tasks.
  using EngineTask = std::function<void(const Error* stopped, Places&, Sequences&, cache::Cache&)>;
  Status ask(EngineTask task) {
    return inbox_.ask(
        [this, task = std::move(task)](const Error* stopped) { task(stopped, *places_, sequences_, cache_); });
  }
  // The engine thread's body; returns after stop(), when every job has ended and all computed state is captured.
  void run();
  // Any thread. Running jobs end with an error; a prefill in progress is interrupted.
  void stop();
  void close() { inbox_.close(); }     // any thread: no request is accepted any more
  void wake() { inbox_.note_left(); }  // any thread: options.embeddings has work, or a client of a request has left
  SchedulerStats stats() const;        // any thread
  const Places& places() const { return *places_; }  // any thread
  bool idle() const { return inbox_.idle(); }        // any thread: every job has ended

 private:
  void note_now();
  bool collect();  // waits if there is nothing to do; returns false if the server stops
  policy::ScheduleView schedule() const;

  // Starting.
  void admit();
  bool start(Request& request);  // returns false if the request must wait for cells
  PlanTerms terms() const;
  void execute(Request& request, const policy::Plan& plan, std::shared_ptr<cache::Lease> lease);
  void begin_slice();
  void continue_restore(Request& request);
  void go_on(Request& request, RestoreTurn& turn);
  void note_read(Request& request, const cache::LoadResult& result);
  void start_again(Request& request);
  void begin_prefill(Request& request);
  void report_start(Request& request);

  // Running.
  void compute_round();
  void prefill_slice();
  void compute(ModelCall call);
  engine::DecodeStatus decode_with_room(const ModelCall& call, std::vector<engine::BatchToken>& batch);
  void note_slice(const ModelCall& call);
  void after_slice(const ModelCall& call);
  void place_branches(Request& request, std::span<const TokenId> first_tokens);
  void sampled(Request& request, TokenId token);
  void after_failure(Request& request, const Error& error);
  void after_bad_logits(const std::vector<Request*>& lost);

  // Cells.
  bool make_room(const Request& keep);
  bool find_cells(const Request& request, std::size_t count);
  void yield_cells(Request& request);
  void set_aside(Request& request, bool rows_valid);

  // Ending.
  std::optional<Overdue> ends(const Request& request, std::int64_t now_ns) const;
  void drop_gone();
  void finish(Request& request, Finish how, const std::optional<Error>& error = std::nullopt);
  void erase_finished();
  void end_all();

  // While no request runs.
  void audit();
  void note_audit(const std::optional<AuditReport>& report);

  double ms_since(std::int64_t from_ns) const { return os::elapsed_ms(from_ns, clock_.monotonic_ns()); }

  const SchedulerOptions options_;
  engine::Engine& engine_;
  cache::Cache& cache_;
  os::Clock& clock_;
  Inbox inbox_;
  const std::unique_ptr<Places> places_;
  std::atomic<bool> prefilling_{false};
  const std::unique_ptr<Searches> searches_;

  // Engine thread only.
  const std::unique_ptr<RequestQueue> waiting_;
  std::vector<std::unique_ptr<Request>> active_;   // in order of admission
  std::vector<std::unique_ptr<Request>> reading_;  // ended, while a read for them is under way
  RequestTraces traces_;
  Sequences sequences_;
  PromptLookup lookup_;
  const std::unique_ptr<BreakFinder> breaks_;
  const std::unique_ptr<CutPlanner> cut_planner_;
  const std::unique_ptr<Schedule> schedule_;
  const std::unique_ptr<Calls> calls_;
  const std::unique_ptr<CellLayout> layout_;
  const std::unique_ptr<EncodedMedia> media_;
  policy::RateMeter rates_;
  const std::unique_ptr<Restorer> restorer_;
  policy::RestoreTrials trials_;
  Audit audit_;
  bool heeded_distrust_ = false;
  bool any_finished_ = false;  // and was not erased yet
  bool changed_ = false;       // since the last admit(): something arrived, was read, ended or gave cells back
};

}  // namespace kvkeep::server
