#pragma once

// The scheduler: a continuous batch over one engine.
//
// One thread runs run() and owns the engine. Each round: decode steps of all running requests in one call, then one
// bounded slice of the oldest request that still prefills (a mixed batch was measured to be slower than two calls).
// A request looks up the cache only when no other prefills, so that requests which arrive together share what the
// first of them computes. Sequences stay in the model's memory after their reply, captured, until cells or sequence
// numbers run short; then the least recently used leaves.
//
// What stays valid (design, section 7): rows of every decode call that returned kOk, also when the request then dies;
// after kAborted or kFailed the sequences of that call are dropped and rebuilt from captured state.

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "cache/cache.h"
#include "cache/capture.h"
#include "engine/engine.h"
#include "index/text_match.h"
#include "os/clock.h"
#include "policy/cut.h"
#include "policy/plan.h"
#include "policy/reach.h"
#include "policy/restore.h"
#include "policy/streamed_points.h"
#include "server/run/audit.h"
#include "server/run/inspection.h"
#include "server/run/job.h"
#include "server/run/partings.h"
#include "server/run/request_log.h"
#include "server/run/trace.h"

namespace kvkeep::server {

struct SchedulerOptions {
  std::size_t parallel = 4;             // requests that run at a time; more wait
  std::size_t queue_limit = 4'096;      // requests that may wait; more are refused (kBusy)
  std::size_t busy_slice_tokens = 512;  // prefill slice while others decode, so that they are not held up
  // Whoever comes while a prompt is prefilled ahead waits for one slice of it: as many tokens as were prefilled in this
  // time so far.
  double ahead_slice_ms = 100;
  std::size_t capture_every_tokens = 256;  // decoded tokens between captures
  // Slices of windowed models are not cut shorter than this, however small the window: between the windows of two
  // slices positions are not restorable, but short slices prefill slower.
  std::size_t least_window_slice_tokens = 512;
  // Read from disk at a time and restored before more is read: more than a device needs to be busy, and little beside
  // the path of a long prompt, which would not fit into RAM at once.
  ByteCount load_window = mebibytes(256);
  // Conversations that nobody went on with for so long leave the model's memory; 0: when others need the room.
  std::int64_t idle_to_live_ns = 0;
  policy::RestoreMode restore = policy::RestoreMode::kAuto;
  policy::CutOptions cuts = {};  // models that need more than rows: where state is captured
  // For matching prompts as text too; null: as ids alone. Outlives the scheduler.
  const index::TokenTexts* texts = nullptr;
  // For finding where prompts are likely to part; null: not looked for. Outlives the scheduler.
  const index::TokenTexts* parting_texts = nullptr;
  bool fine_points = false;    // also where they may part, as far as memory has room: see CutView::fine
  TraceSink* trace = nullptr;  // gets what each request did; null: nobody wants to know
  // Texts of prompts in the log; null: none, as they are private. Outlives the scheduler.
  const ShowTokens* show_tokens = nullptr;
  AuditOptions audit = {};  // never, unless it says so
};

struct SchedulerStats {
  std::uint64_t requests = 0;
  std::uint64_t running = 0;
  std::uint64_t waiting = 0;
  std::uint64_t prefilled_tokens = 0;
  std::uint64_t cached_tokens = 0;
  std::uint64_t plans = 0;      // lookups and plans made, those that ended in waiting included
  std::uint64_t set_aside = 0;  // requests interrupted for want of cells and resumed later
  AuditCounts audits;
};

class Scheduler {
 public:
  Scheduler(SchedulerOptions options, engine::Engine& engine, cache::Cache& cache, os::Clock& clock);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Any thread. kBusy: the queue is full or the server stops, or the job is only for later and there are others.
  // Otherwise the sink gets exactly one on_done.
  Status submit(Job job, std::shared_ptr<JobSink> sink);
  // Any thread. What the prompt (not empty) would reuse now; nothing is touched, not even recency. kBusy: too many ask,
  // or the server stops. Otherwise the sink gets exactly one on_answer, between two calls of the model.
  Status inspect(InspectedPrompt prompt, std::shared_ptr<InspectionSink> sink);
  // The engine thread's body; returns after stop(), when every job has ended and what was computed is captured.
  void run();
  // Any thread. Running jobs end with an error; a prefill in progress is interrupted.
  void stop();
  // Any thread.
  SchedulerStats stats() const;
  // Any thread. No job is there that has not ended.
  bool idle() const;

 private:
  enum class Phase { kWaiting, kLoading, kPrefill, kDecode };
  // A request from submit to on_done.
  struct Active {
    Job job;
    std::shared_ptr<JobSink> sink;
    JobStats stats;
    Phase phase = Phase::kWaiting;
    std::vector<TokenId> tokens;        // effective prompt and what was sampled so far
    std::vector<TokenRange> sampled;    // which of them this server sampled, those to come included
    policy::PromptMarkers markers;      // of the effective prompt
    std::optional<Position> text_from;  // the first id that stands for others of the same text
    std::unique_ptr<engine::Sampler> sampler;
    std::optional<SeqId> seq;             // none while kLoading: its cells were given back, it starts again
    std::shared_ptr<cache::Lease> lease;  // held from lookup to restore
    Position restore_to;                  // rows up to here come from the lease
    bool restore_point = false;           // and there a point or window of it, last
    int load_failures = 0;
    Position known;                        // somebody computed the same up to here
    std::optional<Difference> difference;  // where it leaves the nearest known one, as it was looked up at first
    std::vector<Position> points;          // where points were cached on its path when it was looked up
    std::vector<TokenRange> runs;          // and where windows side by side were
    std::vector<policy::Cut> cuts;         // where its prefill pauses for points, ascending
    std::size_t next_cut = 0;
    std::optional<MissReason> forced_miss;
    bool restore_failed = false;  // the model's memory refused rows: no second try
    std::int64_t submitted_ns = 0;
    std::int64_t started_ns = 0;  // when its first plan was carried out
    std::int64_t load_started_ns = 0;
    std::int64_t first_token_ns = 0;
    int failures = 0;       // decode calls that failed under it
    bool reported = false;  // the first on_prefill was sent
    bool told_to_wait = false;
    std::size_t told_tokens = 0;          // of the prompt, by the last on_prefill
    std::unique_ptr<RequestTrace> trace;  // null: not wanted
  };
  // A sequence of the model's memory.
  struct Sequence {
    enum class State { kFree, kIdle, kBusy } state = State::kFree;
    std::vector<TokenId> tokens;      // whose rows it holds
    Tenant tenant = kNoTenant;        // who alone may go on from them
    std::vector<TokenRange> sampled;  // as of the request that had it last; ranges may go on beyond the tokens
    std::optional<cache::Track> track;
    std::size_t refused_at = 0;       // length at the last capture that the cache did not take whole
    std::size_t point_at = 0;         // length at the last point that was captured to stay
    policy::StreamedPoints streamed;  // of the reply that it decodes
    std::int64_t last_used_ns = 0;
  };
  struct Loaded {
    Active* active;  // null: the audit
    cache::LoadResult result;
  };
  struct Question {
    InspectedPrompt prompt;
    std::shared_ptr<InspectionSink> sink;
  };

  // Inbox.
  bool collect();  // waits if there is nothing to do; false: stop
  bool has_work() const;
  void receive_loaded(Loaded loaded);

  // The effective prompt (effective.cc).
  void match_text(Active& active);
  void take_prompt(Active& active, std::vector<TokenId> tokens, std::span<const TokenRange> sampled);

  // Starting (start.cc).
  void admit();
  bool start(Active& active);  // false: must wait for cells
  policy::PlanView view_of(const Active& active) const;
  void execute(Active& active, const policy::Plan& plan);
  std::optional<SeqId> place(const policy::Plan& plan);
  void continue_restore(Active& active);
  void begin_load(Active& active, TokenRange range);
  void note_loaded(Active& active, const cache::LoadResult& result);
  bool restore_rows(Active& active, TokenRange range);
  bool restore_point(Active& active);
  bool note_refused(Active& active, const Error& error);
  void count_points(Active& active);
  void note_known(Active& active, const policy::PlanView& view);
  void plan_cuts(Active& active);
  void add_likely(policy::CutView& view, const Active& active);
  void start_again(Active& active);
  void count_restored(Active& active, TokenRange range);
  void begin_prefill(Active& active);
  MissReason miss_reason(const Active& active, std::size_t reused) const;
  Status prepare_sampler(Active& active);
  double least_measured_bytes() const;
  void note_restored(Active& active, double bytes, std::int64_t begin_ns);
  Active* active_on(SeqId seq) const;
  std::string_view request_on(SeqId seq) const;

  // Telling (trace.cc, inspect.cc).
  void begin_trace(Active& active) const;
  void end_trace(Active& active, Finish how, const std::optional<Error>& error);
  void trace_cut(SeqId seq, TraceCut cut);
  Explanation explain(const Active& active, const policy::PlanView& view, policy::Plan::Start start) const;
  std::optional<Difference> difference(const Active& active) const;
  void answer_questions();
  void refuse_questions();
  Inspection inspection(InspectedPrompt prompt);
  void count_reach(Active& asked, const policy::Reach& reach);

  // While nobody asks (auditing.cc).
  void audit();
  void heed_distrust();
  void note_audit(const std::optional<AuditReport>& report);

  // Running.
  void decode_step();
  void prefill_slice();
  std::size_t slice_limit(const Active& active) const;
  std::size_t ahead_slice_tokens() const;
  void capture_slice(Active& active);
  void capture_decoded(SeqId seq);
  engine::DecodeStatus decode_with_room(std::vector<engine::BatchToken>& batch, const Active& keep);
  void sampled(Active& active, TokenId token);
  void after_failure(Active& active, engine::DecodeStatus status);
  void drop_gone();
  bool is_overtaken(const Active& active) const;

  // Points along a reply (streaming.cc).
  bool streams_points() const;
  void capture_streamed(SeqId seq);
  void end_streamed(SeqId seq, bool client_left);

  // Ending.
  void finish(Active& active, Finish how, const std::optional<Error>& error = std::nullopt);
  void erase_finished();
  void end_all();

  // Cells and sequences (cells.cc).
  bool holds_cells(const Active& active) const;
  bool make_room(const Active& keep);
  bool find_cells(const Active& active, std::size_t count);
  std::uint32_t cells_free() const { return engine_.memory().cells_total() - engine_.memory().cells_used(); }
  std::uint32_t cells_promised() const;
  void yield_cells(Active& active);
  void release(Active& active, policy::CutReason reason);
  void set_aside(Active& active, bool rows_valid);
  Sequence& sequence(SeqId seq) { return sequences_[static_cast<std::size_t>(seq.value())]; }
  const Sequence& sequence(SeqId seq) const { return sequences_[static_cast<std::size_t>(seq.value())]; }
  void leave(SeqId seq);
  void keep_idle();
  void expire_idle();
  void clear(SeqId seq);
  std::optional<SeqId> free_sequence() const;
  std::optional<SeqId> oldest_idle() const;
  void capture(SeqId seq, policy::CutReason reason);
  void capture_point(SeqId seq, policy::CutReason reason, cache::Keeping keeping = cache::Keeping::kOnDisk);
  bool point_captured(const Sequence& held) const;
  std::size_t next_capture(const Sequence& held) const;
  bool cached(const Active& active) const;
  bool may_use(const Active& active, const Sequence& held) const {
    return held.track.has_value() && held.tenant == active.job.tenant;
  }
  double ms_since(std::int64_t from_ns) const { return os::elapsed_ms(from_ns, clock_.monotonic_ns()); }

  const SchedulerOptions options_;
  engine::Engine& engine_;
  cache::Cache& cache_;
  os::Clock& clock_;

  // Engine thread only.
  std::vector<Sequence> sequences_;
  std::deque<std::unique_ptr<Active>> waiting_;
  std::vector<std::unique_ptr<Active>> active_;  // in order of admission
  policy::Rates rates_;
  policy::RestoreTrials trials_;
  Partings partings_;
  Audit audit_;
  bool heeded_distrust_ = false;
  std::vector<TraceCut> idle_cuts_;  // of sequences that no request was on, since the last trace
  bool changed_ = false;             // since the last admit(): something arrived, was loaded, ended or gave cells back

  std::atomic<bool> stopping_{false};
  std::atomic<bool> prefilling_{false};

  mutable Mutex mutex_;
  CondVar wake_;
  std::vector<std::unique_ptr<Active>> inbox_ GUARDED_BY(mutex_);
  std::vector<Loaded> loaded_ GUARDED_BY(mutex_);
  std::deque<Question> questions_ GUARDED_BY(mutex_);
  std::size_t in_flight_ GUARDED_BY(mutex_) = 0;  // accepted and not ended
  SchedulerStats stats_ GUARDED_BY(mutex_);
};

}  // namespace kvkeep::server
