#include "server/run/sequences.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/tenant_scope.h"
#include "cache/cache.h"
#include "cache/cache_stats.h"
#include "cache/capture.h"
#include "policy/cut.h"
#include "policy/next_call.h"

namespace kvkeep::server {

namespace {

// Points along a reply are taken where its rows are captured anyway, and are kept only in RAM. Copying a large hybrid's
// state (150 MiB) takes some 15 ms, once in capture_every_tokens. A reply has at most this many points, fewer if they
// would exceed a share of --cache-ram, and keeps at most two of them when it ends.
constexpr std::size_t kMostStreamed = 4;
// The share of --cache-ram for each reply is one over this: four points of 150 MiB fit into an eighth of 8 GiB.
constexpr std::size_t kStreamedShare = 8;

constexpr std::int64_t kRecountNs = 1'000'000'000;  // of shared cells
// Where each capture copies the whole sequence: a decoded token reads all weights and the sequence's rows, so that this
// many copies of its row are little.
constexpr std::size_t kMostDecodedCopies = 16;

}  // namespace

Sequences::Sequences(const SequenceOptions& options, cache::ModelMemory& memory, cache::Cache& cache, os::Clock& clock,
                     OnCut on_cut)
    : options_(options),
      memory_(memory),
      cache_(cache),
      clock_(clock),
      on_cut_(std::move(on_cut)),
      sequences_(memory.sequence_count()) {}

std::optional<SeqId> Sequences::free() const {
  const auto found = std::ranges::find(sequences_, Sequence::State::kFree, &Sequence::state);
  if (found == sequences_.end()) return std::nullopt;
  return number(static_cast<std::size_t>(found - sequences_.begin()));
}

std::vector<policy::IdleSequence> Sequences::idle() const {
  std::vector<policy::IdleSequence> idle;
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    if (sequences_[i].state == Sequence::State::kIdle) idle.push_back({number(i), sequences_[i].last_used_ns});
  }
  return idle;
}

std::optional<SeqId> Sequences::oldest_idle() const {
  const std::vector<policy::IdleSequence> all = idle();
  const auto oldest = std::ranges::min_element(all, {}, &policy::IdleSequence::last_used_ns);
  return oldest == all.end() ? std::nullopt : std::optional(oldest->seq);
}

CellCounts Sequences::count_cells() {
  const std::int64_t now_ns = clock_.monotonic_ns();
  const std::uint32_t used = memory_.cells_used();
  if (shared_counted_ns_ == 0 || now_ns - shared_counted_ns_ > kRecountNs) {
    std::uint32_t owned = 0;
    for (std::size_t i = 0; i < sequences_.size(); ++i) owned += memory_.cells_owned(number(i));
    shared_cells_ = used - std::min(used, owned);
    shared_counted_ns_ = now_ns;
    ++shared_counted_;
  }
  return {memory_.cells_total(), used, std::min(used, shared_cells_), shared_counted_};
}

std::vector<policy::Resident> Sequences::residents(TokenSpan prompt, const Tenant* tenant, Cells cells) const {
  std::vector<policy::Resident> residents;
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    const Sequence& held = sequences_[i];
    if (held.state == Sequence::State::kFree) continue;
    policy::Resident resident;
    resident.seq = number(i);
    resident.length = held.end();
    const bool usable = tenant != nullptr && held.shared_with(*tenant);
    resident.common = usable ? Position{} + common_prefix(held.tokens, prompt) : Position{};
    resident.idle = held.state == Sequence::State::kIdle;
    resident.captured = held.track && held.track->position() == resident.length && point_captured(held);
    resident.complete_from = memory_.complete_from(resident.seq);
    if (cells == Cells::kCount) resident.cells_owned = memory_.cells_owned(resident.seq);
    resident.last_used_ns = held.last_used_ns;
    residents.push_back(resident);
  }
  return residents;
}

// ---- a request's way ----

std::optional<SeqId> Sequences::place(const policy::Plan& plan) {
  for (const SeqId leaving : plan.leave) leave(leaving);
  if (plan.start == policy::Plan::Start::kInPlace) {
    if (at(plan.source).end() > plan.from_memory) capture(plan.source, policy::CutReason::kEvict);
    if (memory_.truncate(plan.source, plan.from_memory)) return plan.source;
    clear(plan.source);
    return std::nullopt;
  }
  std::optional<SeqId> seq = free();
  if (!seq) {
    seq = oldest_idle();
    KVKEEP_ASSERT(seq.has_value(), "a plan without a sequence to run on");
    leave(*seq);
  }
  KVKEEP_ASSERT(at(*seq).point_at == 0, "a point of tokens that are gone");
  if (plan.start == policy::Plan::Start::kFork) {
    if (const Status forked = memory_.fork(plan.source, *seq, plan.from_memory); !forked) {
      spdlog::warn(
          "the model's memory refused to share a prefix between two sequences: {}; the request starts without it",
          forked.error().message);
      if (at(plan.source).state == Sequence::State::kIdle) leave(plan.source);
      clear(*seq);
      return std::nullopt;
    }
  }
  return *seq;
}

void Sequences::occupy(SeqId seq, Occupant occupant, TokenSpan tokens) {
  Sequence& held = at(seq);
  held.state = Sequence::State::kBusy;
  held.tokens.assign(tokens.begin(), tokens.end());
  held.occupant = std::move(occupant);
  held.track.reset();
  held.refused_at = 0;
  if (held.point_at > tokens.size()) held.point_at = 0;
}

Status Sequences::restore_rows(SeqId seq, std::span<const cache::RowPiece> pieces, TokenSpan tokens) {
  TRY(memory_.restore_rows(seq, pieces));
  at(seq).tokens.assign(tokens.begin(), tokens.end());
  return {};
}

Status Sequences::restore_point(SeqId seq, std::span<const cache::RowPiece> pieces) {
  TRY(memory_.restore_point(seq, pieces));
  at(seq).point_at = at(seq).tokens.size();
  return {};
}

const Sequence& Sequences::begin_capture(SeqId seq) {
  Sequence& held = at(seq);
  if (held.occupant.cached) held.track.emplace(cache_.track(held.tokens, held.occupant.tenant));
  return held;
}

void Sequences::append(SeqId seq, TokenSpan tokens) {
  at(seq).tokens.insert(at(seq).tokens.end(), tokens.begin(), tokens.end());
}

void Sequences::append_part(SeqId seq, TokenSpan chunk, std::size_t count) {
  Sequence& held = at(seq);
  held.part += count;
  KVKEEP_ASSERT(held.part <= chunk.size(), "a slice ends within its chunk");
  if (held.part < chunk.size()) return;
  held.part = 0;
  append(seq, chunk);
}

// Drops what lies of a chunk that will not be completed. Returns false if the sequence left with it, after its rows
// were captured: a recurrent state cannot go back to the chunk's beginning.
bool Sequences::cut_part(SeqId seq, policy::CutReason reason) {
  Sequence& held = at(seq);
  if (held.part == 0) return true;
  const bool goes_back = memory_.complete_from(seq) <= held.end();
  if (!goes_back) capture(seq, reason);
  if (!goes_back || !memory_.truncate(seq, held.end())) {
    clear(seq);
    return false;
  }
  held.part = 0;
  return true;
}

Status Sequences::shift(SeqId seq, TokenRange dropped) {
  if (!memory_.can_shift()) return unsupported("rows of this model cannot move to other positions");
  Sequence& held = at(seq);
  capture(seq, policy::CutReason::kEvict);
  // Sequences share prefixes, so that the cells which one owns are its last ones.
  const auto shared = [&] { return memory_.cells_owned(seq) < held.end() - dropped.end; };
  for (const policy::IdleSequence& other : idle()) {
    if (!shared()) break;
    if (common_prefix(at(other.seq).tokens, held.tokens) > dropped.end.value()) leave(other.seq);
  }
  if (shared()) return busy("another request shares rows that would move");
  TRY(memory_.shift(seq, dropped));
  held.tokens.erase(held.tokens.begin() + dropped.begin.value(), held.tokens.begin() + dropped.end.value());
  held.track.reset();
  held.occupant.cached = false;
  return {};
}

void Sequences::release(SeqId seq, policy::CutReason reason, std::int64_t keep_s) {
  Sequence& held = at(seq);
  const bool restored = held.track.has_value();  // else the request ended before its rows were there
  if (!held.occupant.cached || !restored || cache_.is_unwanted(*held.track)) return clear(seq);
  if (!cut_part(seq, reason)) return;
  capture(seq, reason);
  capture_point(seq, reason);
  if (keep_s > 0 && held.track) cache_.keep(*held.track, keep_s * 1'000'000'000);
  held.occupant.id = Occupant().id;
  held.state = Sequence::State::kIdle;
  held.last_used_ns = clock_.monotonic_ns();
}

void Sequences::leave(SeqId seq) {
  if (!cut_part(seq, policy::CutReason::kEvict)) return;
  capture(seq, policy::CutReason::kEvict);
  capture_point(seq, policy::CutReason::kEvict);
  clear(seq);
}

// Keeps the time of last use: of two sequences that share as much of a prompt, plans prefer the later one.
void Sequences::clear(SeqId seq) {
  memory_.clear(seq);
  const std::int64_t last_used_ns = at(seq).last_used_ns;
  at(seq) = {};
  at(seq).last_used_ns = last_used_ns;
}

void Sequences::clear_and_forget(SeqId seq) {
  const std::vector<TokenId> tokens = at(seq).tokens;
  const Occupant occupant = at(seq).occupant;
  clear(seq);
  if (!occupant.cached) return;
  const Result<Position> left = cache_.forget(tokens, occupant.tenant);
  if (!left)
    spdlog::warn("state of request {} stays stored, which may be wrong: {}", occupant.id, left.error().message);
}

// ---- idle ones ----

void Sequences::expire_idle() {
  if (options_.idle_to_live_ns == 0) return;
  for (auto idle = oldest_idle(); idle; idle = oldest_idle()) {
    if (clock_.monotonic_ns() - at(*idle).last_used_ns < options_.idle_to_live_ns) return;
    clear(*idle);
  }
}

void Sequences::clear_idle() {
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    if (sequences_[i].state == Sequence::State::kIdle) clear(number(i));
  }
}

void Sequences::forget(TokenSpan conversation, const TenantScope& tenants, std::int64_t idle_ns) {
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    const Sequence& held = sequences_[i];
    if (held.state != Sequence::State::kIdle || !held.track || !tenants.has(held.occupant.tenant)) continue;
    if (clock_.monotonic_ns() - held.last_used_ns < idle_ns) continue;
    const std::size_t common = common_prefix(held.tokens, conversation);
    if (common == std::min(held.tokens.size(), conversation.size())) clear(number(i));
  }
}

void Sequences::keep_idle() {
  cache_.flush();
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    if (sequences_[i].state == Sequence::State::kIdle && sequences_[i].track) keep(number(i));
  }
}

void Sequences::keep(SeqId seq) {
  Sequence& held = at(seq);
  // If another server removed a part of its path meanwhile, capture it anew: the end would lie below a hole.
  if (cache_.track(held.tokens, held.occupant.tenant).position() < held.track->position()) {
    held.track.reset();  // forgotten segments leave when no track holds them
    held.track.emplace(cache_.track(held.tokens, held.occupant.tenant));
  }
  while (held.track->position() < held.end()) {
    const Position before = held.track->position();
    cache_.flush();
    capture(seq, policy::CutReason::kShutdown);
    if (held.track->position() == before) break;  // the rest will never fit
  }
  capture_point(seq, policy::CutReason::kShutdown);
}

// ---- another layout ----

bool Sequences::store(SeqId seq) {
  const Sequence& held = at(seq);
  if (!held.track) return false;
  capture(seq, policy::CutReason::kEvict);
  capture_point(seq, policy::CutReason::kEvict);
  return held.track->position() == held.end() && point_captured(held);
}

void Sequences::leave_idle() {
  for (const policy::IdleSequence& each : idle()) leave(each.seq);
}

bool Sequences::none_is_hidden() const {
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    if (sequences_[i].state == Sequence::State::kFree && memory_.length(number(i)) > Position{}) return false;
  }
  return true;
}

void Sequences::begin_anew() {
  sequences_.clear();
  sequences_.resize(memory_.sequence_count());
  shared_counted_ns_ = 0;
}

// ---- capture ----

void Sequences::capture(SeqId seq, policy::CutReason reason) {
  Sequence& held = at(seq);
  if (!held.track) return;
  const std::int64_t begin_ns = clock_.monotonic_ns();
  const cache::CaptureResult captured =
      cache::capture(cache_, memory_, seq, held.tokens, *held.track, held.occupant.sampled);
  if (!captured.complete) held.refused_at = held.tokens.size();
  const double save_ms = ms_since(begin_ns);
  if (captured.tokens > 0) {
    spdlog::debug("kv cache stored tokens={} at={} reason={} save={:.1f} ms id={}", captured.tokens, held.tokens.size(),
                  policy::to_string(reason), save_ms, held.occupant.id);
  }
  if (captured.tokens == 0 && captured.complete) return;
  on_cut_(seq, {.at = held.end(),
                .reason = reason,
                .tokens = captured.tokens,
                .bytes = ByteCount{memory_.rows_bytes(captured.tokens)},
                .ms = save_ms,
                .complete = captured.complete});
}

void Sequences::capture_point(SeqId seq, policy::CutReason reason, cache::Keeping keeping) {
  Sequence& held = at(seq);
  KVKEEP_ASSERT(held.part == 0, "a point lies at the end of a chunk, not within it");
  if (!held.track || point_captured(held) || memory_.length(seq) == Position{}) return;
  const cache::StateShape shape = memory_.shape();
  if (shape.needs_points() && !policy::end_point_wanted(options_.cuts, held.end(), Position{})) return;
  const std::int64_t begin_ns = clock_.monotonic_ns();
  const cache::PointResult captured = cache::capture_point(cache_, memory_, seq, held.tokens, *held.track, keeping);
  if (captured.complete) held.point_at = held.tokens.size();
  const double save_ms = ms_since(begin_ns);
  if (captured.bytes > ByteCount{}) {
    spdlog::debug("kv cache stored point at={} size={:.2f} MiB reason={} save={:.1f} ms id={}", held.tokens.size(),
                  static_cast<double>(captured.bytes.value()) / 1048576.0, policy::to_string(reason), save_ms,
                  held.occupant.id);
  }
  if (!shape.needs_points() || (captured.bytes == ByteCount{} && captured.complete)) return;
  on_cut_(seq, {.at = held.end(),
                .reason = reason,
                .kind = cache::point_kind(shape),
                .bytes = captured.bytes,
                .ms = save_ms,
                .complete = captured.complete});
}

// Returns true if the end of this sequence is a restorable position.
bool Sequences::point_captured(const Sequence& held) const {
  return !memory_.shape().needs_points() || held.point_at == held.tokens.size();
}

// Returns the length at which a decoding sequence is captured next: after a refusal, not at once again.
std::size_t Sequences::next_capture(const Sequence& held) const {
  const std::size_t last = std::max<std::size_t>(held.track->position().value(), held.refused_at);
  if (!memory_.own_cells()) return last + options_.capture_every_tokens;
  return last + policy::whole_capture_stride(last, options_.capture_every_tokens, kMostDecodedCopies);
}

void Sequences::capture_decoded(SeqId seq) {
  const Sequence& held = at(seq);
  if (!held.track) return;
  const cache::StateShape shape = memory_.shape();
  const bool point_due =
      shape.points && policy::continued_store_due(options_.cuts, held.end(), Position{} + held.point_at);
  const bool rows_due = held.tokens.size() >= next_capture(held);
  if (rows_due || point_due) capture(seq, policy::CutReason::kContinued);
  if (point_due || (rows_due && shape.window_tokens > 0)) {
    capture_point(seq, policy::CutReason::kContinued);
  } else if (rows_due && streams_points()) {
    capture_streamed(seq);
  }
}

// Windows lie side by side along a reply. Whole states grow with the conversation: copying one per step costs too much.
bool Sequences::streams_points() const {
  const cache::StateShape shape = memory_.shape();
  return shape.points && !shape.whole_points && options_.cuts.most_points > 0;
}

void Sequences::capture_streamed(SeqId seq) {
  Sequence& held = at(seq);
  const ByteCount ram_budget = cache_.stats().ram_budget;
  const std::size_t most = policy::points_that_fit(ram_budget, kStreamedShare, ByteCount{memory_.point_bytes(seq)},
                                                   std::min(kMostStreamed, options_.cuts.most_points));
  const Position end = held.end();
  if (most == 0 || held.track->position() != end || end.value() < options_.cuts.min_tokens) return;
  const std::int64_t begin_ns = clock_.monotonic_ns();
  const cache::PointResult captured =
      cache::capture_point(cache_, memory_, seq, held.tokens, *held.track, cache::Keeping::kInRamUntilUsed);
  if (captured.bytes == ByteCount{}) return;  // refused, or already captured
  cache_.forget_points(held.tokens, held.streamed.add(end, most), held.occupant.tenant);
  on_cut_(seq, {.at = end,
                .reason = policy::CutReason::kStreamed,
                .kind = cache::point_kind(memory_.shape()),
                .bytes = captured.bytes,
                .ms = ms_since(begin_ns)});
}

void Sequences::end_streamed(SeqId seq, bool client_left) {
  Sequence& held = at(seq);
  if (held.streamed.held().empty()) return;
  std::vector<Position> leave = held.streamed.end(client_left);
  std::erase(leave, held.end());
  cache_.forget_points(held.tokens, leave, held.occupant.tenant);
}

}  // namespace kvkeep::server
