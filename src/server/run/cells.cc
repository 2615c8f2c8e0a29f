// Cells and sequences of the model's memory: who keeps them after a reply, and who gives them back when they run short.

#include <spdlog/spdlog.h>

#include <algorithm>

#include "server/run/request_log.h"
#include "server/run/scheduler.h"

namespace kvkeep::server {

// ---- who gives cells back ----

bool Scheduler::holds_cells(const Active& active) const { return active.seq && !sequence(*active.seq).tokens.empty(); }

// Frees some cells. False: only `keep` or older requests are left.
bool Scheduler::make_room(const Active& keep) {
  if (const std::optional<SeqId> idle = oldest_idle()) {
    leave(*idle);
    return true;
  }
  for (auto youngest = active_.rbegin(); youngest != active_.rend() && youngest->get() != &keep; ++youngest) {
    if (!holds_cells(**youngest)) continue;
    set_aside(**youngest, true);
    return true;
  }
  return false;
}

// Makes `count` cells free. False: older requests hold them.
bool Scheduler::find_cells(const Active& active, std::size_t count) {
  while (cells_free() < count) {
    if (!make_room(active)) return false;
  }
  return true;
}

// Cells that are free now, but that requests will take whose rows are being read.
std::uint32_t Scheduler::cells_promised() const {
  std::size_t cells = 0;
  for (const auto& active : active_) {
    if (active->phase == Phase::kLoading && active->seq)
      cells += active->tokens.size() - sequence(*active->seq).tokens.size();
  }
  return static_cast<std::uint32_t>(cells);
}

// A request that finds no cells, although all younger ones gave theirs: it waits for the older ones, if there are any.
void Scheduler::yield_cells(Active& active) {
  const bool others =
      std::ranges::any_of(active_, [&](const auto& other) { return other.get() != &active && holds_cells(*other); });
  if (others) return set_aside(active, true);
  if (active.phase == Phase::kDecode) return finish(active, Finish::kLength);
  finish(active, Finish::kError, no_space("the model's memory is too small for this request; raise -c"));
}

// The sequence stays in memory, captured, for whoever continues it.
void Scheduler::release(Active& active, policy::CutReason reason) {
  active.lease.reset();
  if (!active.seq) return;
  const SeqId seq = *active.seq;
  if (cached(active)) {
    capture(seq, reason);
    capture_point(seq, reason);
    if (active.job.keep_s > 0) cache_.keep(*sequence(seq).track, active.job.keep_s * 1'000'000'000);
  }
  active.seq.reset();
  if (!cached(active)) return clear(seq);
  Sequence& held = sequence(seq);
  held.state = Sequence::State::kIdle;
  held.last_used_ns = clock_.monotonic_ns();
}

// The request gives its sequence back and waits at the head of the queue; it goes on from captured state.
void Scheduler::set_aside(Active& active, bool rows_valid) {
  if (rows_valid) log_set_aside(active.job, active.stats);
  end_streamed(*active.seq, /*client_left=*/false);
  if (rows_valid && cached(active)) {
    capture(*active.seq, policy::CutReason::kEvict);
    capture_point(*active.seq, policy::CutReason::kEvict);
  }
  clear(*active.seq);
  active.seq.reset();
  if (active.phase != Phase::kLoading) {  // else the reader still fills the lease: note_loaded() goes on
    active.lease.reset();
    active.phase = Phase::kWaiting;
  }
  changed_ = true;
  if (active.trace != nullptr) ++active.trace->set_aside;
  MutexLock lock(mutex_);
  ++stats_.set_aside;
}

// ---- sequences ----

// An idle sequence leaves. What the cache refused of it, because the disk was slow, may find room by now.
void Scheduler::leave(SeqId seq) {
  capture(seq, policy::CutReason::kEvict);
  capture_point(seq, policy::CutReason::kEvict);
  clear(seq);
}

// A time to live is over. Nothing is captured anew: what the cache has of it may leave now, too.
void Scheduler::expire_idle() {
  if (options_.idle_to_live_ns == 0) return;
  for (auto idle = oldest_idle(); idle; idle = oldest_idle()) {
    if (clock_.monotonic_ns() - sequence(*idle).last_used_ns < options_.idle_to_live_ns) return;
    clear(*idle);
  }
}

// At the end, what the cache refused of idle sequences is captured as fast as the disk writes.
void Scheduler::keep_idle() {
  cache_.flush();
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    Sequence& held = sequences_[i];
    if (held.state != Sequence::State::kIdle || !held.track) continue;
    // What another server removed of its path meanwhile is captured anew, for the end would lie below a hole.
    if (cache_.track(held.tokens, held.tenant).position() < held.track->position()) {
      held.track.reset();  // what is dead leaves when nobody holds it
      held.track.emplace(cache_.track(held.tokens, held.tenant));
    }
    Position before;
    while (held.track->position().value() < held.tokens.size()) {
      before = held.track->position();
      cache_.flush();
      capture(SeqId{static_cast<std::int32_t>(i)}, policy::CutReason::kShutdown);
      if (held.track->position() == before) break;  // it will never fit
    }
    capture_point(SeqId{static_cast<std::int32_t>(i)}, policy::CutReason::kShutdown);
  }
}

void Scheduler::clear(SeqId seq) {
  engine_.memory().clear(seq);
  Sequence& held = sequence(seq);
  held.state = Sequence::State::kFree;
  held.tokens.clear();
  held.sampled.clear();
  held.track.reset();
  held.point_at = 0;
  held.streamed = {};
}

std::optional<SeqId> Scheduler::free_sequence() const {
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    if (sequences_[i].state == Sequence::State::kFree) return SeqId{static_cast<std::int32_t>(i)};
  }
  return std::nullopt;
}

std::optional<SeqId> Scheduler::oldest_idle() const {
  std::optional<SeqId> oldest;
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    const SeqId seq{static_cast<std::int32_t>(i)};
    if (sequences_[i].state != Sequence::State::kIdle) continue;
    if (!oldest || sequences_[i].last_used_ns < sequence(*oldest).last_used_ns) oldest = seq;
  }
  return oldest;
}

bool Scheduler::cached(const Active& active) const {
  return active.job.cache_prompt && engine_.memory().shape().cacheable;
}

// The length at which a decoding sequence is captured next: not at once again after a refusal.
std::size_t Scheduler::next_capture(const Sequence& held) const {
  const std::size_t last = std::max<std::size_t>(held.track->position().value(), held.refused_at);
  return last + options_.capture_every_tokens;
}

void Scheduler::capture(SeqId seq, policy::CutReason reason) {
  Sequence& held = sequence(seq);
  if (!held.track) return;
  const std::int64_t begin_ns = clock_.monotonic_ns();
  const cache::CaptureResult captured =
      cache::capture(cache_, engine_.memory(), seq, held.tokens, *held.track, held.sampled);
  if (!captured.complete) held.refused_at = held.tokens.size();
  const double save_ms = ms_since(begin_ns);
  if (captured.tokens > 0) {
    spdlog::debug("kv cache stored tokens={} at={} reason={} save={:.1f} ms id={}", captured.tokens, held.tokens.size(),
                  policy::to_string(reason), save_ms, request_on(seq));
  }
  if (captured.tokens == 0 && captured.complete) return;
  trace_cut(seq, {.at = Position{} + held.tokens.size(),
                  .reason = reason,
                  .tokens = captured.tokens,
                  .bytes = ByteCount{engine_.memory().rows_bytes(captured.tokens)},
                  .ms = save_ms,
                  .complete = captured.complete});
}

// What rows cannot give, at the end of the sequence. Nothing for models whose rows are all.
void Scheduler::capture_point(SeqId seq, policy::CutReason reason, cache::Keeping keeping) {
  Sequence& held = sequence(seq);
  if (!held.track || point_captured(held) || engine_.memory().length(seq).value() == 0) return;
  const Position end = Position{} + held.tokens.size();
  if (engine_.memory().shape().needs_points() && !policy::end_point_wanted(options_.cuts, end, Position{})) return;
  const std::int64_t begin_ns = clock_.monotonic_ns();
  const cache::PointResult captured =
      cache::capture_point(cache_, engine_.memory(), seq, held.tokens, *held.track, keeping);
  if (captured.complete) held.point_at = held.tokens.size();
  const double save_ms = ms_since(begin_ns);
  if (captured.bytes > ByteCount{0}) {
    spdlog::debug("kv cache stored point at={} size={:.2f} MiB reason={} save={:.1f} ms id={}", held.tokens.size(),
                  static_cast<double>(captured.bytes.value()) / 1048576.0, policy::to_string(reason), save_ms,
                  request_on(seq));
  }
  if (!engine_.memory().shape().needs_points() || (captured.bytes == ByteCount{} && captured.complete)) return;
  trace_cut(seq, {.at = end,
                  .reason = reason,
                  .kind = cache::point_kind(engine_.memory().shape()),
                  .bytes = captured.bytes,
                  .ms = save_ms,
                  .complete = captured.complete});
}

// The cache can put a sequence where this one stands.
bool Scheduler::point_captured(const Sequence& held) const {
  return !engine_.memory().shape().needs_points() || held.point_at == held.tokens.size();
}

// For the log: nobody may be on it any more.
std::string_view Scheduler::request_on(SeqId seq) const {
  const Active* active = active_on(seq);
  return active == nullptr ? "-" : std::string_view(active->job.id);
}

Scheduler::Active* Scheduler::active_on(SeqId seq) const {
  const auto found = std::ranges::find_if(active_, [seq](const auto& active) { return active->seq == seq; });
  return found == active_.end() ? nullptr : found->get();
}

}  // namespace kvkeep::server
