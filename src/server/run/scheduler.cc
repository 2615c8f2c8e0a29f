#include "server/run/scheduler.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/assert.h"
#include "server/run/request_log.h"

namespace kvkeep::server {
namespace {

// Shorter slices prefill much slower.
constexpr std::size_t kLeastAheadTokens = 32;
// An audit reads or restores about so much at a time: a request that comes waits for it.
constexpr ByteCount kAuditUnit = mebibytes(16);

}  // namespace

Scheduler::Scheduler(SchedulerOptions options, engine::Engine& engine, cache::Cache& cache, os::Clock& clock)
    : options_(options),
      engine_(engine),
      cache_(cache),
      clock_(clock),
      sequences_(engine.memory().sequence_count()),
      partings_(options.parting_texts),
      audit_(options.audit, engine, cache, clock, std::min(options.load_window, kAuditUnit),
             [this](cache::LoadResult result) { receive_loaded({nullptr, std::move(result)}); }) {}

Scheduler::~Scheduler() = default;

// ---- inbox ----

Status Scheduler::submit(Job job, std::shared_ptr<JobSink> sink) {
  KVKEEP_ASSERT(!job.prompt.empty(), "a job without a prompt");
  auto active = std::make_unique<Active>();
  active->job = std::move(job);
  take_prompt(*active, active->job.prompt, {});
  active->sink = std::move(sink);
  active->submitted_ns = clock_.monotonic_ns();
  begin_trace(*active);
  MutexLock lock(mutex_);
  if (stopping_) return busy("the server is shutting down");
  if (stats_.waiting >= options_.queue_limit) return busy("too many requests are waiting; try again later");
  if (active->job.ahead && in_flight_ > 0) return busy("there is other work");
  ++stats_.requests;
  ++stats_.waiting;
  ++in_flight_;
  if (active->trace != nullptr) active->trace->in_flight = in_flight_;
  inbox_.push_back(std::move(active));
  wake_.notify_one();
  return {};
}

void Scheduler::stop() {
  MutexLock lock(mutex_);
  stopping_ = true;
  if (prefilling_) engine_.cancel();
  wake_.notify_one();
}

void Scheduler::receive_loaded(Loaded loaded) {
  MutexLock lock(mutex_);
  loaded_.push_back(std::move(loaded));
  wake_.notify_one();
}

SchedulerStats Scheduler::stats() const {
  MutexLock lock(mutex_);
  return stats_;
}

bool Scheduler::idle() const {
  MutexLock lock(mutex_);
  return in_flight_ == 0;
}

bool Scheduler::has_work() const {
  return changed_ || audit_.due() || std::ranges::any_of(active_, [](const auto& active) {
           return active->phase == Phase::kPrefill || active->phase == Phase::kDecode;
         });
}

bool Scheduler::collect() {
  std::vector<std::unique_ptr<Active>> arrived;
  std::vector<Loaded> loaded;
  {
    MutexLock lock(mutex_);
    // A waiting request that does not fit is tried again when something changed, so it is no reason to stay awake;
    // the time-out notices clients that left meanwhile.
    if (inbox_.empty() && loaded_.empty() && questions_.empty() && !stopping_ && !has_work()) {
      wake_.wait_for(mutex_, std::chrono::milliseconds(100));
    }
    arrived.swap(inbox_);
    loaded.swap(loaded_);
    stats_.running = active_.size();
    stats_.waiting = waiting_.size() + arrived.size();
  }
  changed_ |= !arrived.empty() || !loaded.empty();
  for (auto& active : arrived) waiting_.push_back(std::move(active));
  for (const Loaded& done : loaded) {
    done.active != nullptr ? note_loaded(*done.active, done.result) : audit_.loaded(done.result);
  }
  return !stopping_;
}

void Scheduler::run() {
  while (collect()) {
    heed_distrust();
    if (!waiting_.empty()) note_audit(audit_.disturb());
    answer_questions();
    drop_gone();
    expire_idle();
    admit();
    decode_step();
    prefill_slice();
    erase_finished();
    audit();
  }
  end_all();
}

// ---- running ----

void Scheduler::decode_step() {
  std::vector<Active*> members;
  std::vector<engine::BatchToken> batch;
  Active* oldest = nullptr;
  for (const auto& active : active_) {
    if (active->phase != Phase::kDecode) continue;
    if (oldest == nullptr) oldest = active.get();
    if (batch.size() == engine_.description().batch_tokens) break;
    const Sequence& held = sequence(*active->seq);
    batch.push_back({*active->seq, active->tokens.back(), Position{} + held.tokens.size(), true});
    members.push_back(active.get());
  }
  if (batch.empty()) return;
  const engine::DecodeStatus status = decode_with_room(batch, *oldest);
  // Making room may have set the youngest aside; its entry left the batch with it.
  std::erase_if(members, [](const Active* active) { return active->phase != Phase::kDecode; });
  if (status == engine::DecodeStatus::kNoCells) return yield_cells(*oldest);
  for (std::size_t i = 0; i < members.size(); ++i) {
    Active& active = *members[i];
    if (status != engine::DecodeStatus::kOk) {
      after_failure(active, status);
      continue;
    }
    Sequence& held = sequence(*active.seq);
    held.tokens.push_back(batch[i].token);
    capture_decoded(*active.seq);
    sampled(active, engine_.sample(*active.sampler, i));
  }
}

void Scheduler::prefill_slice() {
  const auto found = std::ranges::find_if(active_, [](const auto& active) { return active->phase == Phase::kPrefill; });
  if (found == active_.end()) return;
  Active& active = **found;
  const std::size_t done = sequence(*active.seq).tokens.size();
  const std::size_t count = std::min(slice_limit(active), active.tokens.size() - done);
  std::vector<engine::BatchToken> batch;
  for (std::size_t i = done; i < done + count; ++i) {
    batch.push_back({*active.seq, active.tokens[i], Position{} + i, i + 1 == active.tokens.size()});
  }
  const std::int64_t begin_ns = clock_.monotonic_ns();
  prefilling_ = true;
  const engine::DecodeStatus status = stopping_ ? engine::DecodeStatus::kAborted : decode_with_room(batch, active);
  prefilling_ = false;
  if (status == engine::DecodeStatus::kNoCells) return yield_cells(active);
  if (status != engine::DecodeStatus::kOk) return after_failure(active, status);

  const double slice_ms = ms_since(begin_ns);
  rates_.prefill_tokens_per_s = policy::update_rate(rates_.prefill_tokens_per_s, static_cast<double>(count),
                                                    slice_ms / 1e3, policy::kLeastMeasuredTokens);
  Sequence& held = sequence(*active.seq);
  held.tokens.insert(held.tokens.end(), active.tokens.begin() + static_cast<std::ptrdiff_t>(done),
                     active.tokens.begin() + static_cast<std::ptrdiff_t>(done + count));
  active.stats.prefilled_tokens += count;
  {
    MutexLock lock(mutex_);
    stats_.prefilled_tokens += count;
  }
  const bool complete = held.tokens.size() == active.tokens.size();
  const bool wants_reply = active.job.max_tokens != 0;
  const TokenId token = complete && wants_reply ? engine_.sample(*active.sampler, batch.size() - 1) : 0;
  capture_slice(active);
  // What is prefilled once more, after a failure or for want of cells, is no progress.
  const std::size_t processed = std::min(held.tokens.size(), active.stats.prompt_tokens);
  if (active.stats.predicted_tokens == 0 && processed > active.told_tokens) {
    active.told_tokens = processed;
    active.sink->on_prefill(active.stats, processed, ms_since(active.started_ns));
  }
  if (!complete) return;
  if (active.first_token_ns == 0) {
    active.first_token_ns = clock_.monotonic_ns();
    active.stats.prompt_ms = ms_since(active.started_ns);
    log_prompt_done(active.job, active.stats);
  }
  changed_ = true;  // whoever waited to share this prompt may start
  if (!wants_reply) return finish(active, Finish::kLength);
  active.phase = Phase::kDecode;
  sampled(active, token);
}

// Rows of decoded tokens now and then, so that a crash loses few; points at the interval's frontiers.
void Scheduler::capture_decoded(SeqId seq) {
  const Sequence& held = sequence(seq);
  if (!held.track) return;
  const Position live = Position{} + held.tokens.size();
  const bool point_due =
      engine_.memory().shape().points && policy::continued_store_due(options_.cuts, live, Position{} + held.point_at);
  const bool rows_due = held.tokens.size() >= next_capture(held);
  if (rows_due || point_due) capture(seq, policy::CutReason::kContinued);
  if (point_due || (rows_due && engine_.memory().shape().window_tokens > 0)) {
    capture_point(seq, policy::CutReason::kContinued);
  } else if (rows_due && streams_points()) {
    capture_streamed(seq);
  }
}

// Most tokens of the next slice: up to the next cut, and not so many that window rows slide off uncaptured.
std::size_t Scheduler::slice_limit(const Active& active) const {
  const bool others_decode =
      std::ranges::any_of(active_, [](const auto& other) { return other->phase == Phase::kDecode; });
  std::size_t limit = engine_.description().batch_tokens;
  if (others_decode) limit = std::min(limit, options_.busy_slice_tokens);
  if (active.job.ahead) limit = std::min(limit, ahead_slice_tokens());
  if (const std::size_t window = engine_.memory().shape().window_tokens; window > 0 && cached(active)) {
    limit = std::min(limit, std::max(window, options_.least_window_slice_tokens));
  }
  const std::size_t done = sequence(*active.seq).tokens.size();
  if (active.next_cut < active.cuts.size()) limit = std::min(limit, active.cuts[active.next_cut].at.value() - done);
  return limit;
}

std::size_t Scheduler::ahead_slice_tokens() const {
  const double tokens = rates_.prefill_tokens_per_s * options_.ahead_slice_ms / 1e3;
  return std::max(kLeastAheadTokens, static_cast<std::size_t>(tokens));
}

// What a slice computed, and the point where it ends at a cut.
void Scheduler::capture_slice(Active& active) {
  const std::size_t done = sequence(*active.seq).tokens.size();
  policy::Cut cut;
  const bool at_cut = active.next_cut < active.cuts.size() && active.cuts[active.next_cut].at.value() == done;
  if (at_cut) cut = active.cuts[active.next_cut++];
  capture(*active.seq, cut.reason);
  if (!at_cut && engine_.memory().shape().window_tokens == 0) return;
  capture_point(*active.seq, cut.reason, cut.in_ram ? cache::Keeping::kInRamUntilUsed : cache::Keeping::kOnDisk);
}

// Decodes; when cells run short, idle sequences leave, then the youngest request is set aside, unless that is `keep`.
engine::DecodeStatus Scheduler::decode_with_room(std::vector<engine::BatchToken>& batch, const Active& keep) {
  for (;;) {
    const engine::DecodeStatus status = engine_.decode(batch);
    if (status != engine::DecodeStatus::kNoCells || !make_room(keep)) return status;
    std::erase_if(batch,
                  [&](const engine::BatchToken& entry) { return sequence(entry.seq).state != Sequence::State::kBusy; });
  }
}

void Scheduler::sampled(Active& active, TokenId token) {
  if (const auto& failure = active.sampler->failure()) return finish(active, Finish::kError, failure);
  active.tokens.push_back(token);
  ++active.stats.predicted_tokens;
  active.stats.predicted_ms = ms_since(active.first_token_ns);
  if (!active.sink->on_token(token, active.stats)) return finish(active, Finish::kStop);
  const bool enough =
      active.job.max_tokens >= 0 && active.stats.predicted_tokens >= static_cast<std::size_t>(active.job.max_tokens);
  // The sampled token needs a cell to be decoded in; the context's last cell ends the reply.
  if (enough || active.tokens.size() > engine_.description().context_tokens) finish(active, Finish::kLength);
}

void Scheduler::after_failure(Active& active, engine::DecodeStatus status) {
  if (stopping_ || status == engine::DecodeStatus::kAborted) {
    clear(*active.seq);
    active.seq.reset();
    return finish(active, Finish::kError, aborted("the server is shutting down"));
  }
  spdlog::error("decode failed for request {}; rebuilding it from captured state", active.job.id);
  if (++active.failures < 2) return set_aside(active, false);
  clear(*active.seq);
  active.seq.reset();
  finish(active, Finish::kError, io_error("the model failed to process this request"));
}

// A job for later, and others are there now.
bool Scheduler::is_overtaken(const Active& active) const {
  return active.job.ahead && active_.size() + waiting_.size() > 1;
}

void Scheduler::drop_gone() {
  const auto ends = [this](const Active& active) { return active.sink->gone() || is_overtaken(active); };
  for (const auto& active : active_) {
    if (active->phase != Phase::kLoading && ends(*active)) finish(*active, Finish::kGone);
  }
  for (auto& active : waiting_) {
    if (ends(*active)) finish(*active, Finish::kGone);
  }
  erase_finished();
}

// ---- ending ----

void Scheduler::finish(Active& active, Finish how, const std::optional<Error>& error) {
  if (active.sink == nullptr) return;
  changed_ = true;
  const std::shared_ptr<JobSink> sink = std::exchange(active.sink, nullptr);
  log_done(active.job,
           {.stats = active.stats,
            .started = active.reported,
            .difference = active.difference ? &*active.difference : nullptr,
            .markers = active.markers,
            .how = how,
            .error = error},
           options_.show_tokens);
  {
    MutexLock lock(mutex_);
    --in_flight_;
  }
  sink->on_done(how, active.stats, error);
  if (active.seq) end_streamed(*active.seq, how == Finish::kGone);
  release(active, stopping_ ? policy::CutReason::kShutdown : policy::CutReason::kTurn);
  end_trace(active, how, error);
}

void Scheduler::erase_finished() {
  const auto finished = [](const std::unique_ptr<Active>& active) { return active->sink == nullptr; };
  std::erase_if(active_, finished);
  std::erase_if(waiting_, finished);
}

void Scheduler::end_all() {
  note_audit(audit_.abandon());
  refuse_questions();
  // Loads in flight hold pointers into active_: wait for them.
  const auto loads = [](const auto& active) { return active->phase == Phase::kLoading; };
  while (audit_.loading() || std::ranges::any_of(active_, loads)) {
    {
      MutexLock lock(mutex_);
      if (loaded_.empty()) wake_.wait_for(mutex_, std::chrono::milliseconds(100));
    }
    collect();
  }
  {
    MutexLock lock(mutex_);
    for (auto& active : inbox_) waiting_.push_back(std::move(active));
    inbox_.clear();
  }
  for (auto& active : active_) finish(*active, Finish::kError, aborted("the server is shutting down"));
  for (auto& active : waiting_) finish(*active, Finish::kError, aborted("the server is shutting down"));
  active_.clear();
  waiting_.clear();
  keep_idle();
}

}  // namespace kvkeep::server
