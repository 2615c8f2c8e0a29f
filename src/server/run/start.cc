// Starting a request: look up, plan, load, restore. The plan is made by policy; here it is executed.

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/assert.h"
#include "server/run/scheduler.h"

namespace kvkeep::server {

namespace {

// Cells wanted beyond the prompt before a request starts, so that its reply does not at once push others out.
constexpr std::size_t kReplyRoom = 256;

// Cells that idle sequences may keep beside a request: a few short ones, or an eighth of what the request itself holds,
// so that attention over others' cells stays within a few percent.
constexpr std::size_t kIdleCells = 512;
constexpr std::size_t kIdleShare = 8;

// Penalties look back at most this far; telling the sampler more of a long prompt would cost time for nothing.
std::size_t sampler_window(const engine::SamplingParams& params) {
  if (params.repeat_last_n < 0) return SIZE_MAX;
  return static_cast<std::size_t>(std::max(64, params.repeat_last_n));
}

}  // namespace

void Scheduler::admit() {
  changed_ = false;
  const auto prefills = [](const auto& active) { return active->phase == Phase::kPrefill; };
  for (;;) {
    // Whoever starts while another prefills would miss what that one is about to compute.
    if (std::ranges::any_of(active_, prefills)) return;
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
  if (active.started_ns == 0) {
    active.started_ns = clock_.monotonic_ns();
    active.stats.queue_ms = os::elapsed_ms(active.submitted_ns, active.started_ns);
  }
  if (const Status ready = prepare_sampler(active); !ready) {
    finish(active, Finish::kError, ready.error());
    return true;
  }
  if (cached(active) && active.lease == nullptr) active.lease = cache_.lease(active.tokens);
  const policy::Plan plan = policy::make_plan(view_of(active));
  if (plan.start == policy::Plan::Start::kWait) {
    active.lease.reset();
    return false;
  }
  const TokenRange wanted{plan.from_memory, plan.restored_to};
  if (!wanted.empty() && !active.lease->loaded(wanted)) {
    begin_load(active, wanted);
  } else {
    execute(active, plan);
  }
  return true;
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
  view.cells_total = engine_.cells_total();
  view.cells_free = engine_.cells_total() - engine_.cells_used();
  view.restore = options_.restore;
  view.rates = rates_;
  view.reply_room =
      active.job.max_tokens < 0 ? kReplyRoom : std::min(kReplyRoom, static_cast<std::size_t>(active.job.max_tokens));
  view.idle_cells = std::max(kIdleCells, active.tokens.size() / kIdleShare);
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
    resident.common =
        cached(active) && held.track ? Position{} + common_prefix(held.tokens, active.tokens) : Position{};
    resident.idle = held.state == Sequence::State::kIdle;
    resident.captured = held.track && held.track->position() == resident.length;
    resident.cells_owned = engine_.cells_owned(seq);
    resident.last_used_ns = held.last_used_ns;
    view.residents.push_back(resident);
  }
  if (active.lease != nullptr) {
    for (const cache::LeasedStep& step : active.lease->steps()) {
      view.cached.push_back({step.range, step.payload == nullptr, step.bytes});
    }
  }
  return view;
}

void Scheduler::begin_load(Active& active, TokenRange range) {
  active.phase = Phase::kLoading;
  active.load_started_ns = clock_.monotonic_ns();
  cache_.load(active.lease, range,
              [this, target = &active](Status status) { receive_loaded({target, std::move(status)}); });
}

void Scheduler::execute(Active& active, const policy::Plan& plan) {
  for (const SeqId leaving : plan.leave) clear(leaving);
  SeqId seq = place(plan);
  Position reused = plan.from_memory;
  if (plan.restored_to > plan.from_memory) {
    const std::int64_t begin_ns = clock_.monotonic_ns();
    if (restore(active, seq, {plan.from_memory, plan.restored_to})) {
      reused = plan.restored_to;
    } else {
      reused = Position{};  // after a failed restore the sequence is empty
    }
    active.stats.load_ms += ms_since(begin_ns);
  }
  Sequence& held = sequence(seq);
  held.state = Sequence::State::kBusy;
  held.tokens.assign(active.tokens.begin(), active.tokens.begin() + reused.value());
  if (cached(active)) {
    held.track.emplace(cache_.track(held.tokens));
  } else {
    held.track.reset();
  }
  active.seq = seq;
  active.phase = Phase::kPrefill;
  describe_reuse(active, plan, reused);
  active.lease.reset();
}

// The sequence the plan names, holding [0, plan.from_memory).
SeqId Scheduler::place(const policy::Plan& plan) {
  if (plan.start == policy::Plan::Start::kInPlace) {
    const bool kept = engine_.truncate(plan.source, plan.from_memory);
    KVKEEP_ASSERT(kept, "a sliceable model refused to drop the end of a sequence");
    return plan.source;
  }
  std::optional<SeqId> seq = free_sequence();
  if (!seq) {
    seq = oldest_idle();
    KVKEEP_ASSERT(seq.has_value(), "a plan without a sequence to run on");
    clear(*seq);
  }
  if (plan.start == policy::Plan::Start::kFork) {
    const Status forked = engine_.fork(plan.source, *seq, plan.from_memory);
    KVKEEP_ASSERT(forked.ok(), "a sliceable model refused to share a prefix");
  }
  return *seq;
}

bool Scheduler::restore(Active& active, SeqId seq, TokenRange range) {
  const std::vector<cache::RowPiece> pieces = active.lease->pieces(range);
  const std::int64_t begin_ns = clock_.monotonic_ns();
  Status restored = engine_.restore_rows(seq, pieces);
  if (restored) {
    double bytes = 0;
    for (const cache::RowPiece& piece : pieces) bytes += static_cast<double>(piece.bytes.size());
    rates_.ram_restore_bytes_per_s =
        policy::update_rate(rates_.ram_restore_bytes_per_s, bytes, ms_since(begin_ns) / 1e3);
    return true;
  }
  spdlog::warn("kv cache restore of {} tokens failed: {}; prefilling instead", range.size(), restored.error().message);
  active.forced_miss = restored.error().kind == ErrorKind::kNoSpace ? MissReason::kNoCells : MissReason::kLoadFailed;
  if (restored.error().kind == ErrorKind::kDamaged) {
    for (const cache::LeasedStep& step : active.lease->steps()) {
      if (step.range.end > range.begin) cache_.report_damaged(step.segment);
    }
  }
  return false;
}

void Scheduler::describe_reuse(Active& active, const policy::Plan& plan, Position reused) {
  JobStats& stats = active.stats;
  if (active.reported) return;  // resumed: the client was told what the first start reused
  active.reported = true;
  stats.cached_tokens = reused.value();
  stats.memory_tokens = std::min(reused, plan.from_memory).value();
  if (stats.memory_tokens > 0) stats.source = CacheSource::kMemoryToken;
  if (active.lease != nullptr && reused > plan.from_memory) {
    for (const cache::LeasedStep& step : active.lease->steps()) {
      const Position from = std::max(step.range.begin, plan.from_memory);
      const Position to = std::min(step.range.end, reused);
      if (from >= to) continue;
      const bool disk = step.tier == cache::Tier::kDisk;
      (disk ? stats.disk_tokens : stats.ram_tokens) += to - from;
      stats.source = disk ? CacheSource::kDiskToken : CacheSource::kRamToken;
    }
  }
  stats.miss = miss_reason(active, plan, reused);
  {
    MutexLock lock(mutex_);
    stats_.cached_tokens += stats.cached_tokens;
  }
  if (stats.cached_tokens > 0) {
    spdlog::info("kv cache hit tokens={} source={} memory={} ram={} disk={} load={:.1f} ms", stats.cached_tokens,
                 to_string(stats.source), stats.memory_tokens, stats.ram_tokens, stats.disk_tokens, stats.load_ms);
  } else {
    spdlog::info("kv cache miss tokens={} reason={}", stats.prompt_tokens, to_string(stats.miss));
  }
  spdlog::info("{} ctx={}..{}:{} prompt start", active.job.kind, stats.cached_tokens, stats.prompt_tokens,
               stats.prompt_tokens - stats.cached_tokens);
  active.sink->on_prefill(stats, stats.cached_tokens, ms_since(active.started_ns));
}

MissReason Scheduler::miss_reason(const Active& active, const policy::Plan& plan, Position reused) const {
  if (!active.job.cache_prompt) return MissReason::kCacheOff;
  if (!cached(active)) return MissReason::kNotSliceable;
  if (reused.value() + 1 >= active.tokens.size()) return MissReason::kWholePrompt;
  if (active.forced_miss) return *active.forced_miss;
  if (plan.load_too_slow) return MissReason::kLoadTooSlow;
  return reused.value() == 0 ? MissReason::kNothingCached : MissReason::kNewTokens;
}

}  // namespace kvkeep::server
