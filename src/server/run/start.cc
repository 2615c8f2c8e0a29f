// Starting a request: look up, plan, load, restore. The plan is made by policy; here it is executed.

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

// The end of the next window to load: at least one step; what is loaded already costs nothing.
Position window_end(const cache::Lease& lease, Position from, Position limit, ByteCount window) {
  ByteCount bytes;
  Position end = from;
  for (const cache::LeasedStep& step : lease.steps()) {
    if (step.range.end <= from) continue;
    if (step.payload == nullptr) bytes += step.bytes;
    if (end > from && bytes > window) break;
    end = step.range.end;
    if (end >= limit) return limit;
  }
  return end;
}

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
  if (const Status ready = prepare_sampler(active); !ready) {
    finish(active, Finish::kError, ready.error());
    return true;
  }
  if (cached(active) && !active.restore_failed) active.lease = cache_.lease(active.tokens);
  const policy::Plan plan = policy::make_plan(view_of(active));
  {
    MutexLock lock(mutex_);
    ++stats_.plans;
  }
  if (plan.start == policy::Plan::Start::kWait) {
    active.lease.reset();
    if (!std::exchange(active.told_to_wait, true) && !active.reported) log_waiting(active.job, active.stats);
    return false;
  }
  execute(active, plan);
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
  view.cells_free = cells_free() - std::min(cells_free(), cells_promised());
  view.restore = trials_.due() ? policy::RestoreMode::kAlways : options_.restore;
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

// Takes the sequence at once, so that its cells are there when the rows arrive.
void Scheduler::execute(Active& active, const policy::Plan& plan) {
  if (active.started_ns == 0) {
    active.started_ns = clock_.monotonic_ns();
    active.stats.queue_ms = os::elapsed_ms(active.submitted_ns, active.started_ns);
  }
  for (const SeqId leaving : plan.leave) leave(leaving);
  const SeqId seq = place(plan);
  Sequence& held = sequence(seq);
  held.state = Sequence::State::kBusy;
  held.tokens.assign(active.tokens.begin(), active.tokens.begin() + plan.from_memory.value());
  held.track.reset();
  held.refused_at = 0;
  active.seq = seq;
  active.restore_to = std::max(plan.from_memory, plan.restored_to);
  if (plan.load_too_slow) trials_.note_refused();
  if (plan.restored_to > plan.from_memory) trials_.note_restored();
  if (plan.load_too_slow && !active.forced_miss) active.forced_miss = MissReason::kLoadTooSlow;
  if (!active.reported) {
    active.stats.memory_tokens = plan.from_memory.value();
    active.stats.ram_tokens = active.stats.disk_tokens = 0;
    active.stats.source = plan.from_memory.value() > 0 ? CacheSource::kMemoryToken : CacheSource::kNone;
  }
  if (active.lease != nullptr) cache_.note_use(*active.lease);
  continue_restore(active);
}

// The sequence the plan names, holding [0, plan.from_memory).
SeqId Scheduler::place(const policy::Plan& plan) {
  if (plan.start == policy::Plan::Start::kInPlace) {
    if (sequence(plan.source).tokens.size() > plan.from_memory.value()) {
      capture(plan.source, policy::CutReason::kEvict);
    }
    const bool kept = engine_.truncate(plan.source, plan.from_memory);
    KVKEEP_ASSERT(kept, "a sliceable model refused to drop the end of a sequence");
    return plan.source;
  }
  std::optional<SeqId> seq = free_sequence();
  if (!seq) {
    seq = oldest_idle();
    KVKEEP_ASSERT(seq.has_value(), "a plan without a sequence to run on");
    leave(*seq);
  }
  if (plan.start == policy::Plan::Start::kFork) {
    const Status forked = engine_.fork(plan.source, *seq, plan.from_memory);
    KVKEEP_ASSERT(forked.ok(), "a sliceable model refused to share a prefix");
  }
  return *seq;
}

// Restores what is loaded, window by window; then the rest of the prompt is prefilled.
void Scheduler::continue_restore(Active& active) {
  for (;;) {
    const Position from = Position{} + sequence(*active.seq).tokens.size();
    if (from >= active.restore_to) return begin_prefill(active);
    const Position ready = std::min(active.lease->loaded_until(from), active.restore_to);
    if (ready == from) {
      return begin_load(active, {from, window_end(*active.lease, from, active.restore_to, options_.load_window)});
    }
    // Replies may have grown into the cells that the plan had counted.
    if (!find_cells(active, ready - from)) return set_aside(active, false);
    if (restore(active, {from, ready})) continue;
    // The sequence is empty now: start again with what the model's memory has.
    clear(*active.seq);
    active.seq.reset();
    active.lease.reset();
    active.restore_failed = true;
    active.phase = Phase::kWaiting;
    changed_ = true;
    return;
  }
}

double Scheduler::least_measured_bytes() const {
  return static_cast<double>(engine_.rows_bytes(policy::kLeastMeasuredTokens));
}

void Scheduler::begin_load(Active& active, TokenRange range) {
  active.phase = Phase::kLoading;
  active.load_started_ns = clock_.monotonic_ns();
  cache_.load(active.lease, range,
              [this, target = &active](cache::LoadResult result) { receive_loaded({target, std::move(result)}); });
}

void Scheduler::note_loaded(Active& active, const cache::LoadResult& result) {
  active.phase = Phase::kWaiting;
  active.stats.load_ms += ms_since(active.load_started_ns);
  rates_.disk_read_bytes_per_s =
      policy::update_rate(rates_.disk_read_bytes_per_s, static_cast<double>(result.bytes_read.value()),
                          result.read_ms / 1e3, least_measured_bytes());
  if (!result.status) {
    spdlog::warn("kv cache load failed: {}; using what lies before it id={}", result.status.error().message,
                 active.job.id);
    active.forced_miss = MissReason::kLoadFailed;
  }
  // It ends with the others, or starts again because its cells were given back meanwhile.
  if (stopping_ || !active.seq) return active.lease.reset();
  if (!result.status) {
    active.restore_to = active.lease->loaded_until(Position{} + sequence(*active.seq).tokens.size());
  }
  continue_restore(active);
}

bool Scheduler::restore(Active& active, TokenRange range) {
  const std::vector<cache::RowPiece> pieces = active.lease->pieces(range);
  const std::int64_t begin_ns = clock_.monotonic_ns();
  const Status restored = engine_.restore_rows(*active.seq, pieces);
  active.stats.load_ms += ms_since(begin_ns);
  if (restored) {
    double bytes = 0;
    for (const cache::RowPiece& piece : pieces) {
      bytes += static_cast<double>(piece.bytes.size() * piece.wanted.size() / piece.stored.size());
    }
    rates_.ram_restore_bytes_per_s =
        policy::update_rate(rates_.ram_restore_bytes_per_s, bytes, ms_since(begin_ns) / 1e3, least_measured_bytes());
    count_restored(active, range);
    return true;
  }
  spdlog::warn("kv cache restore of {} tokens failed: {}; prefilling instead id={}", range.size(),
               restored.error().message, active.job.id);
  const bool short_of_cells = restored.error().kind == ErrorKind::kNoSpace;
  active.forced_miss = short_of_cells ? MissReason::kNoCells : MissReason::kLoadFailed;
  // Rows that the model refuses are refused next time too.
  for (const cache::LeasedStep& step : active.lease->steps()) {
    if (!short_of_cells && step.range.end > range.begin && step.range.begin < range.end) {
      cache_.report_damaged(step.segment);
    }
  }
  return false;
}

void Scheduler::count_restored(Active& active, TokenRange range) {
  Sequence& held = sequence(*active.seq);
  held.tokens.assign(active.tokens.begin(), active.tokens.begin() + range.end.value());
  for (const cache::LeasedStep& step : active.lease->steps()) {
    const Position from = std::max(step.range.begin, range.begin);
    const Position to = std::min(step.range.end, range.end);
    if (from >= to || active.reported) continue;
    const bool disk = step.tier == cache::Tier::kDisk;
    (disk ? active.stats.disk_tokens : active.stats.ram_tokens) += to - from;
    active.stats.source = disk ? CacheSource::kDiskToken : CacheSource::kRamToken;
  }
  active.lease->release_until(range.end);
}

void Scheduler::begin_prefill(Active& active) {
  active.lease.reset();
  active.phase = Phase::kPrefill;
  Sequence& held = sequence(*active.seq);
  if (cached(active)) held.track.emplace(cache_.track(held.tokens));
  if (active.reported) {  // resumed: the client was told what the first start reused
    return log_resumed(active.job, active.stats, held.tokens.size());
  }
  active.reported = true;
  active.stats.cached_tokens = held.tokens.size();
  active.stats.miss = miss_reason(active, held.tokens.size());
  {
    MutexLock lock(mutex_);
    stats_.cached_tokens += active.stats.cached_tokens;
  }
  log_start(active.job, active.stats);
  active.sink->on_prefill(active.stats, active.stats.cached_tokens, ms_since(active.started_ns));
}

MissReason Scheduler::miss_reason(const Active& active, std::size_t reused) const {
  if (!active.job.cache_prompt) return MissReason::kCacheOff;
  if (!cached(active)) return MissReason::kNotSliceable;
  if (reused + 1 >= active.tokens.size()) return MissReason::kWholePrompt;
  if (active.forced_miss) return *active.forced_miss;
  return reused == 0 ? MissReason::kNothingCached : MissReason::kNewTokens;
}

}  // namespace kvkeep::server
