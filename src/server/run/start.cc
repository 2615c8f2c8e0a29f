// Starting a request: look up, plan, take a sequence. The plan is made by policy; here it is executed.

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/assert.h"
#include "server/run/request_log.h"
#include "server/run/scheduler.h"

namespace kvkeep::server {

namespace {

// Cells wanted beyond the prompt before a request starts, so that its reply does not at once push others out.
constexpr std::size_t kReplyRoom = 256;

// Cells that idle sequences may keep beside a request: a few short ones, or an eighth of what the request itself holds,
// so that attention over others' cells stays within a few percent.
constexpr std::size_t kIdleCells = 512;
constexpr std::size_t kIdleShare = 8;

// Fine points of one prompt: at most so many, in a share of --cache-ram. Each interrupts the prefill, so that fewer are
// taken of a tool's result than of the tools, which are read once.
constexpr std::size_t kMostFine = 32;
constexpr std::size_t kMostSteps = 8;
constexpr std::size_t kFineShare = 64;

// A request that recomputes this many tokens for want of a point marks a place where one is wanted.
constexpr std::size_t kLearntGap = 32;

// A point lies up to so far before where prompts part or end: what is computed again there is not why the rest is.
constexpr std::size_t kSmallGap = 16;

// Penalties look back at most this far; telling the sampler more of a long prompt would cost time for nothing.
std::size_t sampler_window(const engine::SamplingParams& params) {
  if (params.repeat_last_n < 0) return SIZE_MAX;
  return static_cast<std::size_t>(std::max(64, params.repeat_last_n));
}

}  // namespace

void Scheduler::admit() {
  // Looking up and planning again makes sense only when something changed, not after every decoded token.
  if (!std::exchange(changed_, false)) return;
  const auto prefills = [](const auto& active) { return active->phase == Phase::kPrefill; };
  for (;;) {
    // Whoever starts while another prefills would miss what that one is about to compute.
    if (std::ranges::any_of(active_, prefills)) return;  // its end is a change
    const auto set_aside = std::ranges::find_if(
        active_, [](const auto& active) { return active->phase == Phase::kWaiting && active->sink; });
    if (set_aside != active_.end()) {
      if (!start(**set_aside)) return;
      continue;
    }
    if (waiting_.empty() || active_.size() >= options_.parallel) return;
    active_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
    if (!start(*active_.back())) return;
  }
}

bool Scheduler::start(Active& active) {
  match_text(active);
  if (const Status ready = prepare_sampler(active); !ready) {
    finish(active, Finish::kError, ready.error());
    return true;
  }
  if (cached(active) && !active.restore_failed) active.lease = cache_.lease(active.tokens, active.job.tenant);
  const policy::PlanView view = view_of(active);
  const policy::Plan plan = policy::make_plan(view);
  note_known(active, view);
  {
    MutexLock lock(mutex_);
    ++stats_.plans;
  }
  if (plan.start == policy::Plan::Start::kWait) {
    active.lease.reset();
    if (!std::exchange(active.told_to_wait, true) && !active.reported) log_waiting(active.job, active.stats);
    return false;
  }
  if (active.trace != nullptr && !active.reported) active.trace->explanation = explain(active, view, plan.start);
  execute(active, plan);
  return true;
}

// For the cuts, which are planned when the lease is gone.
void Scheduler::note_known(Active& active, const policy::PlanView& view) {
  if (!active.reported) active.difference = cached(active) ? difference(active) : std::nullopt;
  active.known = view.cached.empty() ? Position{} : view.cached.back().range.end;
  for (const policy::Resident& resident : view.residents) active.known = std::max(active.known, resident.common);
  active.points.clear();
  active.runs.clear();
  const bool windowed = engine_.memory().shape().window_tokens > 0;
  for (const policy::Restorable& run : view.restorable) {
    const TokenRange here{run.first, run.last + 1};
    if (windowed && !active.runs.empty() && active.runs.back().end == here.begin) {
      active.runs.back().end = here.end;  // other windows, or from another tier
    } else {
      active.runs.push_back(here);
    }
  }
  // Points side by side are points all the same; of windows only the end of one that stands alone is.
  const auto points = [windowed](TokenRange run) { return !windowed || run.size() == 1; };
  for (const TokenRange run : active.runs) {
    for (Position at = run.begin; points(run) && at < run.end; at = at + 1) active.points.push_back(at);
  }
  std::erase_if(active.runs, points);
}

// What the prompt's text says of where others of its client will part from it. Windows need no such cuts: they lie side
// by side, and a slice is soon prefilled again.
void Scheduler::add_likely(policy::CutView& view, const Active& active) {
  if (!engine_.memory().shape().points || active.job.ahead) return;
  const Position end = Position{} + view.prompt_tokens;
  const Position told = view.markers.generation_prompt.value_or(end);
  const Position answer = view.markers.assistant_turns.empty() ? end : view.markers.assistant_turns.front();
  const bool parts = view.known < end && view.known - view.cached >= kLearntGap;
  if (parts && !active.reported) partings_.learn(active.job.client, active.tokens, view.known);
  if (view.cached >= told) return;
  policy::LikelyPartings found = partings_.find(active.job.client, active.tokens, {view.cached, told}, answer);
  view.likely = std::move(found.lines);
  if (!options_.fine_points || engine_.memory().shape().whole_points) return;
  const ByteCount point{engine_.memory().point_bytes(*active.seq)};
  view.most_fine = policy::points_that_fit(cache_.stats().ram_budget, kFineShare, point, kMostFine);
  view.fine = std::move(found.tools);
  // What a client sent since the last answer; in its first prompt, the last message of the user.
  const Position asked = view.markers.user_turns.empty() ? answer : view.markers.user_turns.back();
  const TokenRange since{std::max(view.cached, std::min(answer, asked)), told};
  const auto steps = policy::fine_steps(since, view.options.least_step_tokens, std::min(view.most_fine, kMostSteps));
  view.fine.insert(view.fine.end(), steps.begin(), steps.end());
}

// Where the prefill pauses so that state can be captured.
void Scheduler::plan_cuts(Active& active) {
  active.cuts.clear();
  active.next_cut = 0;
  if (!cached(active) || !engine_.memory().shape().needs_points()) return;
  // A request that goes on after an interruption has the cuts before it that are left.
  if (sequence(*active.seq).tokens.size() >= active.stats.prompt_tokens) return;
  policy::CutView view;
  view.options = options_.cuts;
  view.prompt_tokens = active.stats.prompt_tokens;
  view.markers = active.markers;
  view.cached = Position{} + sequence(*active.seq).tokens.size();
  view.known = active.known;
  view.points = active.points;
  view.runs = active.runs;
  add_likely(view, active);
  const policy::CutPlan plan = policy::plan_cuts(view);
  active.cuts = plan.cuts;
  cache_.await_point(*sequence(*active.seq).track, plan.awaited);
  if (!plan.leave.empty()) cache_.forget_points(active.tokens, plan.leave, active.job.tenant);
  if (plan.cold_skipped && !active.reported) {
    spdlog::debug(
        "kv cache: no point at the stable beginning of a prompt of {} tokens: it is longer than "
        "--kv-cache-cold-max-tokens {} id={}",
        view.prompt_tokens, options_.cuts.cold_max_tokens, active.job.id);
  }
}

Status Scheduler::prepare_sampler(Active& active) {
  if (active.sampler != nullptr) return {};
  TRY_ASSIGN(active.sampler, engine_.make_sampler(active.job.sampling));
  const std::size_t window = std::min(sampler_window(active.job.sampling), active.tokens.size());
  for (const TokenId token : TokenSpan(active.tokens).last(window)) active.sampler->accept(token);
  return {};
}

policy::PlanView Scheduler::view_of(const Active& active) const {
  policy::PlanView view;
  view.prompt_tokens = active.tokens.size();
  view.cells_total = engine_.memory().cells_total();
  view.cells_free = cells_free() - std::min(cells_free(), cells_promised());
  view.restore = trials_.due() ? policy::RestoreMode::kAlways : options_.restore;
  view.rates = rates_;
  view.reply_room =
      active.job.max_tokens < 0 ? kReplyRoom : std::min(kReplyRoom, static_cast<std::size_t>(active.job.max_tokens));
  view.idle_cells = std::max(kIdleCells, active.tokens.size() / kIdleShare);
  view.needs_points = engine_.memory().shape().needs_points();
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    const Sequence& held = sequences_[i];
    const SeqId seq{static_cast<std::int32_t>(i)};
    if (held.state == Sequence::State::kFree) {
      view.sequence_free = true;
      continue;
    }
    policy::Resident resident;
    resident.seq = seq;
    resident.length = Position{} + held.tokens.size();
    const bool usable = cached(active) && may_use(active, held);
    resident.common = usable ? Position{} + common_prefix(held.tokens, active.tokens) : Position{};
    resident.idle = held.state == Sequence::State::kIdle;
    resident.captured = held.track && held.track->position() == resident.length && point_captured(held);
    resident.stands_from = engine_.memory().stands_from(seq);
    resident.cells_owned = engine_.memory().cells_owned(seq);
    resident.last_used_ns = held.last_used_ns;
    view.residents.push_back(resident);
  }
  if (active.lease != nullptr) {
    for (const cache::LeasedStep& step : active.lease->steps()) {
      view.cached.push_back({step.range, step.payload == nullptr, step.bytes});
    }
    if (view.needs_points) view.restorable = active.lease->restorable();
  }
  return view;
}

// Takes the sequence at once, so that its cells are there when the rows arrive.
void Scheduler::execute(Active& active, const policy::Plan& plan) {
  if (active.started_ns == 0) {
    active.started_ns = clock_.monotonic_ns();
    active.stats.queue_ms = os::elapsed_ms(active.submitted_ns, active.started_ns);
  }
  for (const SeqId leaving : plan.leave) leave(leaving);
  const std::optional<SeqId> placed = place(plan);
  if (!placed) return start_again(active);
  const SeqId seq = *placed;
  Sequence& held = sequence(seq);
  KVKEEP_ASSERT(plan.start == policy::Plan::Start::kInPlace || held.point_at == 0, "a point of tokens that are gone");
  held.state = Sequence::State::kBusy;
  held.tokens.assign(active.tokens.begin(), active.tokens.begin() + plan.from_memory.value());
  held.tenant = active.job.tenant;
  held.sampled = active.sampled;
  held.track.reset();
  held.refused_at = 0;
  if (held.point_at > plan.from_memory.value()) held.point_at = 0;
  active.seq = seq;
  active.restore_to = std::max(plan.from_memory, plan.restored_to);
  active.restore_point = plan.point;
  if (plan.load_too_slow) trials_.note_refused();
  if (plan.restored_to > plan.from_memory || plan.point) trials_.note_restored();
  if (plan.load_too_slow && !active.forced_miss) active.forced_miss = MissReason::kLoadTooSlow;
  if (!active.reported) {
    active.stats.memory_tokens = plan.from_memory.value();
    active.stats.ram_tokens = active.stats.disk_tokens = 0;
    active.stats.source = plan.from_memory.value() > 0 ? CacheSource::kMemoryToken : CacheSource::kNone;
    active.stats.point = CachePoint::kNone;
  }
  if (active.lease != nullptr) {
    cache_.note_use(*active.lease, plan.point ? std::optional(plan.restored_to) : std::nullopt);
  }
  continue_restore(active);
}

// The sequence the plan names, holding [0, plan.from_memory); whether it stands there is the plan's business. None: the
// model's memory refused, and the source is lost.
std::optional<SeqId> Scheduler::place(const policy::Plan& plan) {
  if (plan.start == policy::Plan::Start::kInPlace) {
    if (sequence(plan.source).tokens.size() > plan.from_memory.value()) {
      capture(plan.source, policy::CutReason::kEvict);
    }
    if (engine_.memory().truncate(plan.source, plan.from_memory)) return plan.source;
    clear(plan.source);
    return std::nullopt;
  }
  std::optional<SeqId> seq = free_sequence();
  if (!seq) {
    seq = oldest_idle();
    KVKEEP_ASSERT(seq.has_value(), "a plan without a sequence to run on");
    leave(*seq);
  }
  if (plan.start == policy::Plan::Start::kFork) {
    if (const Status forked = engine_.memory().fork(plan.source, *seq, plan.from_memory); !forked) {
      spdlog::warn("the model's memory refused to share a prefix: {}", forked.error().message);
      leave(plan.source);
      clear(*seq);
      return std::nullopt;
    }
  }
  return *seq;
}

void Scheduler::begin_prefill(Active& active) {
  active.lease.reset();
  active.phase = Phase::kPrefill;
  Sequence& held = sequence(*active.seq);
  if (cached(active)) held.track.emplace(cache_.track(held.tokens, held.tenant));
  plan_cuts(active);
  if (active.reported) {  // resumed: the client was told what the first start reused
    return log_resumed(active.job, active.stats, held.tokens.size());
  }
  active.reported = true;
  active.stats.cached_tokens = active.told_tokens = held.tokens.size();
  if (active.text_from && active.text_from->value() < held.tokens.size()) {
    active.stats.source = as_text(active.stats.source);
  }
  active.stats.miss = miss_reason(active, held.tokens.size());
  active.stats.known_tokens = active.known.value();
  {
    MutexLock lock(mutex_);
    stats_.cached_tokens += active.stats.cached_tokens;
  }
  log_start(active.job, active.stats);
  active.sink->on_prefill(active.stats, active.stats.cached_tokens, ms_since(active.started_ns));
}

MissReason Scheduler::miss_reason(const Active& active, std::size_t reused) const {
  if (!active.job.cache_prompt) return MissReason::kCacheOff;
  if (!cached(active)) return MissReason::kNotCacheable;
  const std::size_t known = std::max<std::size_t>(active.known.value(), reused);
  const bool small_gap = known - reused <= kSmallGap;
  if (reused + 1 >= active.tokens.size()) return MissReason::kWholePrompt;
  if (active.forced_miss) return *active.forced_miss;
  if (reused > 0 && small_gap && known >= active.tokens.size()) return MissReason::kWholePrompt;
  // Below the least length of a point, all that is shared is how the template opens.
  const bool opening = reused == 0 && active.known.value() < options_.cuts.min_tokens;
  if (!opening && !small_gap) return MissReason::kNoPoint;
  return reused == 0 ? MissReason::kNothingCached : MissReason::kNewTokens;
}

}  // namespace kvkeep::server
