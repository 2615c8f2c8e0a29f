#include "server/run/scheduler.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "cache/cache.h"
#include "policy/cached_prefix.h"
#include "server/run/awaited_prefix.h"
#include "server/run/branches.h"
#include "server/run/calls.h"
#include "server/run/cell_layout.h"
#include "server/run/context_shift.h"
#include "server/run/embeddings.h"
#include "server/run/encoded_media.h"
#include "server/run/places.h"
#include "server/run/prefill_cuts.h"
#include "server/run/queue_room.h"
#include "server/run/request_queue.h"
#include "server/run/restorer.h"
#include "server/run/schedule.h"
#include "server/run/scheduler_stats.h"
#include "server/run/search.h"
#include "server/run/token_scores.h"

namespace kvkeep::server {
namespace {
using Phase = Request::Phase;
constexpr ByteCount kAuditUnit = mebibytes(16);  // is read or restored while a request that comes waits
// Each answer costs as much as the start of a request (milliseconds for a long prompt), while running requests wait.
constexpr std::size_t kQuestionsPerRound = 4, kEstimatesPerRound = 2;

bool any_of(const Embeddings* embeddings) { return embeddings != nullptr && embeddings->any(); }

}  // namespace

Scheduler::Scheduler(SchedulerOptions options, engine::Engine& engine, cache::Cache& cache, os::Clock& clock)
    : options_(options),
      engine_(engine),
      cache_(cache),
      clock_(clock),
      inbox_(queue_limits(options, engine.description().context_tokens)),
      places_(std::make_unique<Places>(options.parallel)),
      searches_(std::make_unique<Searches>(cache, clock, [this] { inbox_.wake(); })),
      waiting_(std::make_unique<RequestQueue>()),
      traces_(options.trace, clock),
      sequences_({.capture_every_tokens = options.capture_every_tokens,
                  .idle_to_live_ns = options.idle_to_live_ns,
                  .cuts = options.cuts},
                 engine.memory(), cache, clock,
                 [this](SeqId seq, const TraceCut& cut) {
                   traces_.add(trace_of(active_, seq), cut);
                   inbox_.count([&](SchedulerStats& stats) { stats.figures.captured.add(cut.bytes, cut.ms); });
                 }),
      lookup_({.texts = options.texts,
               .context_tokens = engine.description().context_tokens,
               .least_point_tokens = options.cuts.min_tokens},
              engine.memory(), cache, sequences_),
      breaks_(std::make_unique<BreakFinder>(options.explain, cache)),
      cut_planner_(std::make_unique<CutPlanner>(
          CutPlannerOptions{.cuts = options.cuts, .texts = options.likely_texts, .fine_points = options.fine_points},
          engine.memory(), cache)),
      schedule_(std::make_unique<Schedule>(schedule_options(options, cache.publishes()), engine.description(),
                                           engine.memory(), sequences_)),
      calls_(std::make_unique<Calls>(options.decode_with_prefill, options.pinned_slice_tokens, engine.description())),
      layout_(std::make_unique<CellLayout>(options.parallel, engine, sequences_, cache, clock, inbox_,
                                           [this](Request& each) { set_aside(each, true); })),
      media_(std::make_unique<EncodedMedia>(options.projector, clock, inbox_)),
      rates_(engine.memory().rows_bytes(policy::kLeastMeasuredTokens)),
      restorer_(std::make_unique<Restorer>(
          RestorerOptions{.load_window = options.load_window, .slice_ms = options.slice_ms}, engine.memory(),
          sequences_, cache, clock, inbox_, rates_,
          [this](const Request& request, std::size_t count) { return find_cells(request, count); })),
      audit_(options.audit, engine, cache, clock, std::min(options.load_window, kAuditUnit),
             [this](cache::LoadResult result) { inbox_.deliver({nullptr, std::move(result)}); }) {}

Scheduler::~Scheduler() = default;

// ---- inbox ----

Status Scheduler::submit(std::vector<Submission> submissions) {
  std::vector<std::unique_ptr<Request>> requests;
  for (Submission& submission : submissions) {
    requests.push_back(make_request(std::move(submission)));
    requests.back()->submitted_ns = clock_.monotonic_ns();
    requests.back()->trace = traces_.begin();
    if (engine_.memory().shape().cacheable) requests.back()->search = searches_->begin(requests.back()->job);
  }
  return inbox_.submit(std::move(requests));
}

SchedulerStats Scheduler::stats() const { return inbox_.stats(clock_.monotonic_ns()); }

void Scheduler::stop() {
  if (options_.embeddings != nullptr) options_.embeddings->stop();  // before run() returns: nobody would end its jobs
  inbox_.stop();
  if (prefilling_) engine_.cancel();
}

// A waiting request that does not fit is tried again when something has changed, so it is no reason to stay awake.
bool Scheduler::collect() {
  const bool has_work = changed_ || any_of(options_.embeddings) || audit_.due() ||
                        std::ranges::any_of(active_, [](const auto& request) { return request->has_work(); });
  Inbox::Arrived arrived = inbox_.collect(has_work ? std::chrono::milliseconds(0) : waiting_->longest_wait());
  if (arrived.left) waiting_->check_all();
  changed_ |= arrived.any();
  for (auto& request : arrived.requests) waiting_->add(std::move(request));
  for (const LoadedState& done : arrived.loaded) {
    done.request != nullptr ? note_read(*done.request, done.result) : audit_.loaded(done.result);
  }
  return !inbox_.stopping();
}

void Scheduler::run() {
  while (collect()) {
    // The model's memory may have state that was restored from wrong state.
    if (cache_.distrusted() && !std::exchange(heeded_distrust_, true)) sequences_.clear_idle();
    if (!waiting_->empty()) note_audit(audit_.disturb());
    const std::vector<Question> asked = inbox_.take_questions(kQuestionsPerRound);
    if (!asked.empty()) note_audit(audit_.abandon());  // its cells and its sequence are as good as free
    for (const Question& question : asked) question(nullptr);
    drop_gone();
    sequences_.expire_idle();
    changed_ |= layout_->look(active_, *waiting_);
    admit();
    compute_round();
    note_now();
    erase_finished();
    audit();
  }
  end_all();
}

void Scheduler::note_now() { inbox_.note_now(count_now(active_, *waiting_, *places_, sequences_.count_cells())); }

policy::ScheduleView Scheduler::schedule() const { return schedule_->view(active_, *waiting_, rates_.rates()); }

// ---- starting ----

// Looking up and planning again makes sense only when something has changed, not after every decoded token.
void Scheduler::admit() {
  changed_ |= release_awaiting(*waiting_, active_, sequences_, clock_.monotonic_ns());
  if (active_.size() >= options_.parallel) waiting_->estimate(lookup_, terms(), kEstimatesPerRound);
  if (layout_->holds_starts() || !std::exchange(changed_, false)) return;
  for (const auto& request : active_) request->must_wait = false;
  for (std::size_t placeless = 0; placeless < kMostPlaceless;) {
    const auto next = policy::next_start(schedule());
    if (!next || layout_->holds_starts()) return;
    if (next->from_queue) active_.push_back(waiting_->take(next->at));
    Request& request = next->from_queue ? *active_.back() : *active_[next->at];
    if (const auto end = ends(request, clock_.monotonic_ns())) finish(request, end->how, end->error);
    request.must_wait = request.sink != nullptr && !start(request);
    if (request.seq) note_overtaken(active_);
    std::size_t began_to_wait = request.awaits ? 1 : 0;
    const bool has_place = request.sink != nullptr && !request.awaits;
    if (next->from_queue && has_place) waiting_->note_started(request);
    placeless += has_place ? 0 : 1;
    if (next->from_queue && !has_place) began_to_wait += leave_place(active_, *waiting_, sequences_, clock_);
    inbox_.count([=](SchedulerStats& stats) { stats.prefix_waits += began_to_wait; });
  }
  changed_ = true;  // the next round goes on
}

bool Scheduler::start(Request& request) {
  if (await_unknown(request, active_, sequences_, clock_)) return true;
  note_search(request, rates_);
  if (options_.texts != nullptr) match_text(request, lookup_);
  if (const Status ready = prepare_sampler(request, engine_); !ready) {
    finish(request, Finish::kError, ready.error());
    return true;
  }
  const TokenSpan tokens = request.effective.tokens;
  FoundPath found = lookup_.find(request.job, tokens, terms(), request.tiers());
  const policy::Plan plan = policy::make_plan(found.view);
  request.note_known(found.known);
  if (!request.reported) request.difference = lookup_.difference(request.job, tokens, &request.known_rest);
  inbox_.count([](SchedulerStats& stats) { ++stats.plans; });
  if (await_prefix(request, policy::choose_prefix(found.view), active_, sequences_, clock_)) return true;
  if (layout_->begins_to_wait(request) || plan.start == policy::Plan::Start::kWait) {
    request.stats.waits.begin(WaitCause::kCells, clock_.monotonic_ns());
    if (!std::exchange(request.told_to_wait, true) && !request.reported) log_waiting(request.job, request.stats);
    return false;
  }
  if (request.trace != nullptr && !request.reported) {
    request.trace->explanation = lookup_.explain(request.job, found, plan.start, request.effective, request.difference);
  }
  execute(request, plan, std::move(found.lease));
  return true;
}

PlanTerms Scheduler::terms() const {
  return {.restore = trials_.due() ? policy::RestoreMode::kAlways : options_.restore,
          .rates = rates_.rates(),
          .cells_promised = cells_promised(active_, sequences_)};
}

// Takes the sequence at once, so that its cells are still there when the rows arrive.
void Scheduler::execute(Request& request, const policy::Plan& plan, std::shared_ptr<cache::Lease> lease) {
  note_started(request, clock_.monotonic_ns());
  request.seq = sequences_.place(plan);
  if (!request.seq) {
    const bool shares = plan.start == policy::Plan::Start::kFork;
    request.fork_refused |= shares && sequences_[plan.source].state == Sequence::State::kBusy;
    return start_again(request);
  }
  sequences_.occupy(*request.seq, occupant(request, lookup_.cached(request.job)),
                    TokenSpan(request.effective.tokens).first(plan.from_memory.value()));
  if (plan.load_too_slow) trials_.note_refused();
  if (plan.restored_to > plan.from_memory || plan.point) trials_.note_restored();
  request.load_too_slow |= plan.load_too_slow;
  if (!request.start_counted) request.stats.count_memory(plan.from_memory.value());
  if (lease != nullptr) cache_.note_use(*lease, plan.point ? std::optional(plan.restored_to) : std::nullopt);
  request.restore.begin(std::move(lease), std::max(plan.from_memory, plan.restored_to), plan.point);
  request.passed = 0;
  continue_restore(request);
}

// ---- restoring ----

// While others decode, a round has the time of one slice after their tokens, which embeddings take, or rows in RAM that
// are put into the model's memory; a slice of prefill has the rest of it.
void Scheduler::begin_slice() {
  const bool shared = any_in(active_, Phase::kDecode);
  const bool contended = shared && (any_in(active_, Phase::kPrefill) || any_in(active_, Phase::kRestoring));
  const bool embeds = options_.embeddings != nullptr && options_.embeddings->turn(contended);
  if (embeds && shared) return schedule_->begin_slice(active_, nullptr, std::numeric_limits<double>::infinity());
  RestoreTurn turn = restorer_->begin_turn(shared);
  const Request* last = nullptr;
  while (!turn.over && any_in(active_, Phase::kRestoring)) {
    const auto next = policy::next_restore(schedule());
    if (!next) break;
    last = active_[*next].get();
    go_on(*active_[*next], turn);
  }
  schedule_->begin_slice(active_, last, shared ? turn.spent_ms : 0);
}

// Restores state in RAM, or in the next turns if others decode, and reads state on disk; then the rest is prefilled.
void Scheduler::continue_restore(Request& request) {
  RestoreTurn turn{.over = any_in(active_, Phase::kDecode)};
  go_on(request, turn);
}

void Scheduler::go_on(Request& request, RestoreTurn& turn) {
  switch (restorer_->go_on(request, turn)) {
    case Restorer::Outcome::kDone: return begin_prefill(request);
    case Restorer::Outcome::kReads:
    case Restorer::Outcome::kPaused: return;
    case Restorer::Outcome::kNoCells: return set_aside(request, false);
    case Restorer::Outcome::kRefused: return start_again(request);
  }
}

// Gives the sequence back after the model's memory or the disk refused, so that another plan is made.
void Scheduler::start_again(Request& request) {
  if (request.seq) sequences_.clear(*request.seq);
  request.seq.reset();
  request.restore.end();
  request.phase = Phase::kWaiting;
  request.stats.waits.begin(WaitCause::kCells, clock_.monotonic_ns());
  changed_ = true;
}

void Scheduler::note_read(Request& request, const cache::LoadResult& result) {
  if (request.sink == nullptr) return forget(reading_, request);
  note_loaded(request, result, clock_.monotonic_ns(), rates_);
  // The request ends with the others or in drop_gone(), or starts again because its cells were given back meanwhile.
  if (inbox_.stopping() || !request.seq || ends(request, clock_.monotonic_ns())) return request.restore.end();
  const bool goes_on = result.status.ok() || take_less(request, sequences_[*request.seq].end());
  goes_on ? continue_restore(request) : start_again(request);
}

void Scheduler::begin_prefill(Request& request) {
  request.restore.end();
  request.phase = Phase::kPrefill;
  request.stats.waits.begin(WaitCause::kTurn, clock_.monotonic_ns());
  request.passed = 0;
  request.captured_to = sequences_[*request.seq].end();
  const Sequence& held = sequences_.begin_capture(*request.seq);
  claim_files(request, held);
  request.cuts = cut_planner_->plan({.job = request.job,
                                     .tokens = request.effective.tokens,
                                     .prompt_tokens = request.stats.prompt_tokens,
                                     .markers = request.effective.markers,
                                     .media = request.effective.media,
                                     .known = request.known,
                                     .first = !request.reported},
                                    *request.seq, held);
  // The reply of an interrupted request reports what the first start reused.
  if (request.start_counted) return log_resumed(request.job, request.stats, held.tokens.size());
  report_start(request);
}

void Scheduler::report_start(Request& request) {
  request.reported = request.start_counted = true;
  note_reused(request, sequences_[*request.seq].end(), lookup_, *breaks_);
  places_->show(active_);
  inbox_.count([&](SchedulerStats& stats) { stats.note_start(request.stats, request.job.ahead); });
  log_start(request.job, request.stats);
  if (request.found_break != nullptr) request.sink->on_break(request.found_break);
  if (!request.is_late) request.sink->on_prefill(request.stats, request.told_tokens, ms_since(request.started_ns));
}

// ---- running ----

void Scheduler::compute_round() {
  for (const auto& each : active_) tell_encoded(*each, schedule_->held(*each), clock_.monotonic_ns());
  schedule_->begin_slice(active_, nullptr, 0);
  policy::ScheduleView view = schedule();
  const std::vector<Request*> runners = runners_of(view, active_);
  if (!any_of(options_.embeddings) && !any_in(active_, Phase::kRestoring)) {  // else they have the slice
    if (auto joint = calls_->begin_round(std::move(view), active_, runners)) return compute(*std::move(joint));
  }
  for (std::vector<Request*>& group : by_adapters(runners)) compute({.runners = std::move(group)});
  begin_slice();
  prefill_slice();
}

void Scheduler::prefill_slice() {
  const auto slice = policy::next_slice(calls_->shaped(schedule()));
  if (!slice) return;
  Request& request = *active_[slice->at];
  const Result<bool> branches_are_ready = prepare_branches(request, engine_);
  if (!branches_are_ready) return finish(request, Finish::kError, branches_are_ready.error());
  if (!*branches_are_ready) return;  // its slices wait for the next round, so that others decode in between
  Result<MediaSlice> media = media_->find(request, sequences_[*request.seq].end());
  if (!media) return finish(request, Finish::kError, media.error());
  if (request.must_encode) return request.stats.waits.begin(WaitCause::kEncoder, clock_.monotonic_ns());
  const std::size_t tokens = media->limit(sequences_[*request.seq].part, slice->tokens);
  compute({.prefills = &request, .slice = tokens, .media = *std::move(media)});
}

void Scheduler::compute(ModelCall call) {
  call.drop_set_aside();  // for another group
  if (call.empty()) return;
  std::vector<engine::BatchToken> batch = call.batch(sequences_);
  const std::int64_t begin_ns = clock_.monotonic_ns();
  if (call.prefills != nullptr) {
    call.prefills->stats.waits.end(begin_ns);
    note_now();  // a slice may take long
    prefilling_ = true;
  }
  const engine::DecodeStatus status = decode_with_room(call, batch);
  prefilling_ = false;
  call.drop_set_aside();  // for the oldest; their entries left the batch with them
  if (status == engine::DecodeStatus::kNoCells && call.is_joint()) {
    compute({.runners = std::move(call.runners)});
    return prefill_slice();
  }
  if (status == engine::DecodeStatus::kNoCells) return yield_cells(call.first());
  const auto fail = [&](Request* each) { after_failure(*each, failure_of(status)); };
  if (status != engine::DecodeStatus::kOk) return void(std::ranges::for_each(call.requests(), fail));
  layout_->note(call, begin_ns);
  call.slice_time = calls_->note(call, sequences_, ms_since(begin_ns));
  call.append(sequences_);
  if (call.prefills != nullptr) note_slice(call);
  if (const auto lost = call.with_bad_logits(engine_); !lost.empty()) return after_bad_logits(lost);
  for (std::size_t i = 0; i < call.runners.size(); ++i) {
    sequences_.capture_decoded(*call.runners[i]->seq);
    sampled(*call.runners[i], sample_next(*call.runners[i], engine_, i));
  }
  if (call.prefills != nullptr) after_slice(call);
}

// Decodes; if cells run short, other requests that are not older than the call's first one give theirs up. For a joint
// call nobody does: its parts find room in calls of their own.
engine::DecodeStatus Scheduler::decode_with_room(const ModelCall& call, std::vector<engine::BatchToken>& batch) {
  const Request& keep = call.first();
  const engine::MediaChunk* chunk = call.media.chunk();
  if (prefilling_ && inbox_.stopping()) return engine::DecodeStatus::kAborted;
  engine_.use_adapters(keep.job.adapters);
  for (;;) {
    const auto status = chunk != nullptr ? engine_.decode_media(*keep.seq, *chunk) : engine_.decode(batch);
    inbox_.count([&](SchedulerStats& stats) { stats.note_call(active_.size(), call.is_joint()); });
    if (status != engine::DecodeStatus::kNoCells) return status;
    calls_->note_no_cells();
    if (call.is_joint() || !make_room(keep)) return status;
    std::erase_if(batch, [&](const auto& entry) { return sequences_[entry.seq].state != Sequence::State::kBusy; });
  }
}

void Scheduler::note_slice(const ModelCall& call) {
  Request& request = *call.prefills;
  if (const auto ms = call.slice_time.typical_ms()) rates_.note_prefilled(call.slice, *ms);
  if (options_.restore == policy::RestoreMode::kAuto) cache_.note_prefill_rate(rates_.rates().prefill_tokens_per_s);
  const PrefilledTokens tokens = count_prefilled(request, sequences_[*request.seq].computed(), call.slice);
  const std::size_t length = request.effective.tokens.size();
  inbox_.count([&](SchedulerStats& stats) { stats.note_prefilled(tokens, call.slice_time.ms, length); });
}

void Scheduler::after_slice(const ModelCall& call) {
  Request& request = *call.prefills;
  const std::size_t held = sequences_[*request.seq].computed();
  const TokenRange slice{Position{} + (held - call.slice), Position{} + held};
  score_prompt(request, engine_, slice);
  const bool complete = held == request.effective.tokens.size();
  const bool wants_reply = request.job.max_tokens != 0;
  const TokenId token = complete && wants_reply ? sample_next(request, engine_, call.last()) : 0;
  const auto further = complete && wants_reply ? begin_branches(request, engine_, call.last()) : std::vector<TokenId>();
  const double capture_ms = capture_slice(request, sequences_, schedule_->capture_stride(request), call.slice, clock_);
  const bool preempted = schedule_->note_slice(active_, request, slice, call.slice_time.typical_ms(capture_ms));
  if (preempted) inbox_.count([](SchedulerStats& stats) { ++stats.preemptions; });
  tell_prefilled(request, held, ms_since(request.started_ns));
  const std::int64_t now_ns = clock_.monotonic_ns();
  if (!complete && is_prefill_too_long(request, now_ns)) return finish(request, Finish::kLength);
  if (!complete) return request.stats.waits.begin(WaitCause::kTurn, now_ns);
  note_prompt_done(request, now_ns);
  changed_ = true;  // requests that waited to share this prompt may start
  if (!wants_reply) return finish(request, Finish::kLength);
  note_decodes(request, now_ns);
  place_branches(request, further);
  sampled(request, token);
}

// Further replies to the prompt run at once, as many as there is room for; the others start there next.
void Scheduler::place_branches(Request& request, std::span<const TokenId> first_tokens) {
  bool waits = false;
  for (std::unique_ptr<Request>& branch : std::exchange(request.branches, {})) {
    Request& placed = *branch;
    placed.number = request.number;
    if (active_.size() < options_.parallel && fork_branch(placed, *request.seq, sequences_)) {
      active_.push_back(std::move(branch));
      places_->show(active_);
    } else {
      if (!std::exchange(waits, true)) sequences_.capture_point(*request.seq, policy::CutReason::kTurn);
      note_late(placed, request.first_token_ns);
    }
    placed.first_token_ns = request.first_token_ns;
    placed.stats.prompt_ms = request.stats.prompt_ms;
    sampled(placed, first_tokens.front());
    if (branch != nullptr && placed.sink != nullptr) waiting_->add_branch(std::move(branch));
    first_tokens = first_tokens.subspan(1);
  }
}

void Scheduler::sampled(Request& request, TokenId token) {
  if (const auto& failure = request.sampler->failure()) return finish(request, Finish::kError, failure);
  const double ms = note_sampled(request, token, ms_since(request.first_token_ns));
  inbox_.count(
      [&](SchedulerStats& stats) { stats.note_predicted(request.stats, ms, request.effective.tokens.size() - 1); });
  if (!request.sink->on_token(token, request.stats)) return finish(request, Finish::kStop);
  const std::size_t context = engine_.description().context_tokens;
  if (is_enough(request, context, options_.shift_context)) return finish(request, Finish::kLength);
  if (!options_.shift_context || request.effective.tokens.size() < context) return;
  if (!shift_context(request, context, sequences_)) set_aside(request, true);
}

void Scheduler::after_failure(Request& request, const Error& error) {
  if (!inbox_.stopping() && error.kind != ErrorKind::kAborted && ++request.stats.failed_calls < 2) {
    spdlog::error("request {}: {}; computing it once more", request.job.id, error.message);
    return set_aside(request, false);
  }
  sequences_.clear(*request.seq);
  request.seq.reset();
  if (request.sink->gone()) return finish(request, Finish::kGone);
  finish(request, Finish::kError, inbox_.stopping() ? stopped() : error);
}

// Drops all state that NaN may have reached. Of several requests of a call nobody knows which one it came from; each is
// computed anew in calls of its own, which tells.
void Scheduler::after_bad_logits(const std::vector<Request*>& lost) {
  for (Request* each : lost) {
    sequences_.clear_and_forget(*each->seq);
    each->from_beginning = true;
    lost.size() > 1 ? set_aside(*each, false) : after_failure(*each, bad_logits());
  }
  for (const auto& other : active_) {
    if (other->seq) set_aside(*other, true);
  }
  sequences_.clear_idle();
  engine_.wipe();
}

// ---- cells ----

// Frees some cells. Returns false if only `keep` or older requests are left.
bool Scheduler::make_room(const Request& keep) {
  const auto found = std::ranges::find_if(active_, [&](const auto& request) { return request.get() == &keep; });
  const auto giver = policy::next_giver(schedule(), static_cast<std::size_t>(found - active_.begin()));
  if (!giver) return false;
  giver->idle ? sequences_.leave(*giver->idle) : set_aside(*active_[giver->at], true);
  return true;
}

// Makes `count` cells free. Returns false if older requests hold them.
bool Scheduler::find_cells(const Request& request, std::size_t count) {
  while (sequences_.cells_free() < count && make_room(request)) continue;
  return sequences_.cells_free() >= count;
}

// A request finds no cells, although all younger ones gave theirs up: it waits for the older ones, if there are any.
void Scheduler::yield_cells(Request& request) {
  const bool others = std::ranges::any_of(
      active_, [&](const auto& other) { return other.get() != &request && schedule_->held(*other) > 0; });
  if (others) return set_aside(request, true);
  if (request.phase == Phase::kDecode) return finish(request, Finish::kLength);
  finish(request, Finish::kError, no_space("the model's memory has no room for this request; raise -c"));
}

// The request gives its sequence back and waits at the head of the queue; it resumes from captured state.
void Scheduler::set_aside(Request& request, bool rows_valid) {
  if (rows_valid) log_set_aside(request.job, request.stats);
  sequences_.end_streamed(*request.seq, /*client_left=*/false);
  rows_valid ? sequences_.leave(*request.seq) : sequences_.clear(*request.seq);
  request.seq.reset();
  if (request.phase != Phase::kLoading) {  // else the reader still fills the lease, and note_read() ends it
    request.restore.end();
    request.phase = Phase::kWaiting;
  }
  note_set_aside(request, clock_.monotonic_ns());
  changed_ = true;
  inbox_.count([](SchedulerStats& stats) { ++stats.set_aside; });
}

// ---- ending ----

// The client has left; or the job is a prefill ahead, and there are other requests or will be none; or time is up.
std::optional<Overdue> Scheduler::ends(const Request& request, std::int64_t now_ns) const {
  const bool others = active_.size() + waiting_->size() > 1;
  if (request.sink->gone() || (request.job.ahead && (inbox_.closed() || others))) return Overdue{Finish::kGone};
  return overdue(request, now_ns);
}

void Scheduler::drop_gone() {
  const auto drop = [this, now_ns = clock_.monotonic_ns()](Request& request) {
    if (const auto end = ends(request, now_ns)) finish(request, end->how, end->error);
    return request.sink == nullptr;
  };
  for (const auto& request : active_) drop(*request);
  waiting_->drop_some(clock_.monotonic_ns(), drop);
  erase_finished();
}

void Scheduler::finish(Request& request, Finish how, const std::optional<Error>& error) {
  if (request.sink == nullptr) return;
  changed_ = any_finished_ = true;
  const std::shared_ptr<JobSink> sink = std::exchange(request.sink, nullptr);
  note_ended(request, clock_.monotonic_ns());
  const EndedRequest ended = as_ended(request, how, error);
  log_done(request.job, ended, options_.show_tokens);
  inbox_.note_ended({request.job.ahead, request.job.owner, clock_.monotonic_ns(), how, request.stats, ended.found});
  places_->note_end(request, how, clock_.wall_ns());
  for (const auto& branch : request.branches) finish(*branch, how, error);
  breaks_->end(request.job, request.stats, request.found_break, request.effective, clock_.wall_ns());
  sink->on_done(how, request.stats, error);
  request.phase == Phase::kLoading ? request.restore.abandon() : request.restore.end();
  if (request.seq) {
    const Sequence& held = sequences_[*request.seq];
    if (held.occupant.cached) places_->leave(request, {held.tokens, request.job.tenant});
    sequences_.end_streamed(*request.seq, how == Finish::kGone);
    const policy::CutReason reason = inbox_.stopping() ? policy::CutReason::kShutdown : policy::CutReason::kTurn;
    sequences_.release(*request.seq, reason, request.job.keep_s);
    request.seq.reset();
  }
  traces_.end(std::exchange(request.trace, nullptr), request.job, ended, reply_of(request));
}

void Scheduler::erase_finished() {
  if (std::exchange(any_finished_, false)) erase_ended(active_, reading_);
}

void Scheduler::end_all() {
  const Error stop = stopped();
  note_audit(audit_.abandon());
  if (options_.embeddings != nullptr) options_.embeddings->end();
  for (const Question& question : inbox_.take_questions(SIZE_MAX)) question(&stop);
  // Reads in flight hold pointers to requests: wait for them.
  while (audit_.loading() || !reading_.empty() || any_in(active_, Phase::kLoading)) {
    inbox_.await_loaded(waiting_->longest_wait());
    collect();
  }
  collect();  // takes requests that came just before the stop
  for (auto& request : active_) finish(*request, Finish::kError, stop);
  for (const auto& request : waiting_->all()) finish(*request, Finish::kError, stop);
  active_.clear();
  waiting_->clear();
  sequences_.keep_idle();
}

// ---- while no request runs ----

void Scheduler::audit() {
  if (!active_.empty() || !waiting_->empty() || any_of(options_.embeddings)) return note_audit(audit_.disturb());
  engine_.use_adapters({});
  note_audit(audit_.step(sequences_.free(), schedule().limits.ahead_slice_tokens));
}

void Scheduler::note_audit(const std::optional<AuditReport>& report) {
  if (!report) return;
  inbox_.count([&](SchedulerStats& stats) { stats.audits.add(report->outcome); });
  if (options_.trace != nullptr) options_.trace->on_audit(*report);
}

}  // namespace kvkeep::server
