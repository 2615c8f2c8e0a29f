// What a plan takes from the cache: loaded, restored, and what happens when the disk or the model's memory refuses.

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "server/run/scheduler.h"

namespace kvkeep::server {

namespace {

// Loads that may fail under one request before it is prefilled.
constexpr int kLoadFailures = 4;

// Whether it is (a part of) what puts a sequence there.
bool puts_at(const cache::LeasedPoint& point, Position at) { return point.range.end >= at && point.range.begin <= at; }

}  // namespace

// Restores what is loaded, window by window, and what rows cannot give last; then the rest of the prompt is prefilled.
void Scheduler::continue_restore(Active& active) {
  for (;;) {
    const Position from = Position{} + sequence(*active.seq).tokens.size();
    if (from >= active.restore_to) {
      if (!active.restore_point) return begin_prefill(active);
      if (!active.lease->point_loaded(active.restore_to)) return begin_load(active, {from, from});
      if (!restore_point(active)) return start_again(active);
      return begin_prefill(active);
    }
    const Position ready = std::min(active.lease->loaded_until(from), active.restore_to);
    if (ready == from) {
      return begin_load(active, {from, active.lease->load_end(from, active.restore_to, options_.load_window)});
    }
    // Replies may have grown into the cells that the plan had counted.
    if (!find_cells(active, ready - from)) return set_aside(active, false);
    if (!restore_rows(active, {from, ready})) return start_again(active);
  }
}

// After the model's memory or the disk refused: the sequence is given back, and another plan is made.
void Scheduler::start_again(Active& active) {
  if (active.seq) clear(*active.seq);
  active.seq.reset();
  active.lease.reset();
  active.restore_point = false;
  active.phase = Phase::kWaiting;
  changed_ = true;
}

double Scheduler::least_measured_bytes() const {
  constexpr std::uint64_t kLeastWithoutRows = 64 << 10;
  const std::uint64_t rows = engine_.memory().rows_bytes(policy::kLeastMeasuredTokens);
  return static_cast<double>(rows > 0 ? rows : kLeastWithoutRows);
}

// Copied into the model's memory since `begin_ns`.
void Scheduler::note_restored(Active& active, double bytes, std::int64_t begin_ns) {
  const double ms = ms_since(begin_ns);
  rates_.ram_restore_bytes_per_s =
      policy::update_rate(rates_.ram_restore_bytes_per_s, bytes, ms / 1e3, least_measured_bytes());
  if (active.trace == nullptr) return;
  active.trace->restored_bytes += ByteCount{static_cast<std::uint64_t>(bytes)};
  active.trace->restored_ms += ms;
}

void Scheduler::begin_load(Active& active, TokenRange range) {
  active.phase = Phase::kLoading;
  active.load_started_ns = clock_.monotonic_ns();
  std::optional<Position> point;
  if (active.restore_point && range.end == active.restore_to) point = active.restore_to;
  cache_.load(
      active.lease, range,
      [this, target = &active](cache::LoadResult result) { receive_loaded({target, std::move(result)}); }, point);
}

void Scheduler::note_loaded(Active& active, const cache::LoadResult& result) {
  active.phase = Phase::kWaiting;
  active.stats.load_ms += ms_since(active.load_started_ns);
  if (active.trace != nullptr) {
    active.trace->read_bytes += result.bytes_read;
    active.trace->read_ms += result.read_ms;
  }
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
  // Nobody waits for it any more: it ends with the next look at who is gone.
  if (active.sink->gone() || is_overtaken(active)) return active.lease.reset();
  if (!result.status) {
    active.restore_failed = ++active.load_failures >= kLoadFailures;
    if (active.restore_point || active.restore_failed)
      return start_again(active);  // another point may be the next best
    active.restore_to = active.lease->loaded_until(Position{} + sequence(*active.seq).tokens.size());
  }
  continue_restore(active);
}

bool Scheduler::restore_rows(Active& active, TokenRange range) {
  const std::vector<cache::RowPiece> pieces = active.lease->pieces(range);
  const std::int64_t begin_ns = clock_.monotonic_ns();
  const Status restored = engine_.memory().restore_rows(*active.seq, pieces);
  active.stats.load_ms += ms_since(begin_ns);
  if (restored) {
    double bytes = 0;
    for (const cache::RowPiece& piece : pieces) {
      bytes += static_cast<double>(piece.bytes.size() * piece.wanted.size() / piece.stored.size());
    }
    note_restored(active, bytes, begin_ns);
    count_restored(active, range);
    return true;
  }
  if (!note_refused(active, restored.error())) return false;
  for (const cache::LeasedStep& step : active.lease->steps()) {
    if (step.range.end > range.begin && step.range.begin < range.end) cache_.report_damaged(step.segment);
  }
  return false;
}

// What rows cannot give, after the rows.
bool Scheduler::restore_point(Active& active) {
  const std::int64_t begin_ns = clock_.monotonic_ns();
  const std::vector<cache::RowPiece> pieces = active.lease->point_pieces(active.restore_to);
  const Status restored = engine_.memory().restore_point(*active.seq, pieces);
  active.stats.load_ms += ms_since(begin_ns);
  if (restored) {
    if (!active.reported) count_points(active);
    double bytes = 0;
    for (const cache::RowPiece& piece : pieces) bytes += static_cast<double>(piece.bytes.size());
    note_restored(active, bytes, begin_ns);
    sequence(*active.seq).point_at = active.restore_to.value();
    return true;
  }
  if (!note_refused(active, restored.error())) return false;
  for (const cache::LeasedPoint& point : active.lease->points()) {
    if (puts_at(point, active.restore_to)) cache_.report_damaged(point.id);
  }
  return false;
}

// True: the bytes are to blame, and would be refused next time too.
bool Scheduler::note_refused(Active& active, const Error& error) {
  spdlog::warn("kv cache restore failed: {}; prefilling instead id={}", error.message, active.job.id);
  const bool short_of_cells = error.kind == ErrorKind::kNoSpace;
  active.forced_miss = short_of_cells ? MissReason::kNoCells : MissReason::kLoadFailed;
  active.restore_failed = true;
  return !short_of_cells;
}

// What puts the sequence at active.restore_to; of a window's parts the slowest tells. Tokens are counted where their
// rows come from, whatever the point's tier; where rows have no bytes, all of them come with the point.
void Scheduler::count_points(Active& active) {
  JobStats& stats = active.stats;
  for (const cache::LeasedPoint& point : active.lease->points()) {
    if (!puts_at(point, active.restore_to)) continue;
    stats.point = std::max(stats.point, point.tier == cache::Tier::kDisk ? CachePoint::kDisk : CachePoint::kRam);
  }
  if (stats.point == CachePoint::kNone || engine_.memory().rows_bytes(1) > 0) return;
  const bool disk = stats.point == CachePoint::kDisk;
  stats.source = disk ? CacheSource::kDiskToken : CacheSource::kRamToken;
  stats.memory_tokens = stats.ram_tokens = stats.disk_tokens = 0;
  (disk ? stats.disk_tokens : stats.ram_tokens) = active.restore_to.value();
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

}  // namespace kvkeep::server
