#include "server/run/restore.h"

#include <algorithm>
#include <utility>

#include "cache/cache.h"
#include "policy/next_call.h"

namespace kvkeep::server {

namespace {

using Kind = RestoreUnit::Kind;

// After this many failed reads a request is prefilled.
constexpr int kMostFailedReads = 4;

// Rows of a unit, if the restore goes on after it.
constexpr std::size_t kLeastRows = policy::kSliceTile;

// Returns true if `point` makes `at` restorable, or is a part of what does.
bool puts_at(const cache::LeasedPoint& point, Position at) { return point.range.end >= at && point.range.begin <= at; }

}  // namespace

void Restore::begin(std::shared_ptr<cache::Lease> lease, Position to, bool point) {
  lease_ = std::move(lease);
  to_ = to;
  point_ = point;
  if (lease_ != nullptr) lease_->aim_at(to_);
}

RestoreUnit Restore::next(Position from, const RestoreSteps& steps) const {
  const std::optional<Position> point = point_ ? std::optional(to_) : std::nullopt;
  if (from >= to_) {
    if (!point) return {};
    if (!lease_->point_loaded(to_)) return {.kind = Kind::kRead, .range = {from, from}, .point = point};
    return {.kind = Kind::kPoint, .range = {from, from}, .point = point};
  }
  const Position ready = std::min(lease_->loaded_until(from), to_);
  if (steps.rows_at_once && ready == to_) return {.kind = Kind::kRows, .range = {from, ready}};
  if (!steps.rows_at_once && ready > from)
    return {.kind = Kind::kRows, .range = {from, put_end(from, ready, steps.most_put)}};
  const Position end = lease_->load_end(ready, to_, steps.most_read);
  return {.kind = Kind::kRead, .range = {ready, end}, .point = end == to_ ? point : std::nullopt};
}

// Returns a position about `most` bytes after `from`, but some rows in any case: each put costs a little by itself.
Position Restore::put_end(Position from, Position ready, ByteCount most) const {
  std::uint64_t left = most.value();
  Position end = from;
  for (const cache::LeasedStep& step : lease_->steps()) {
    if (step.range.end <= from) continue;
    const std::uint64_t of_row = step.bytes.value() / std::max<std::uint64_t>(1, step.stored.size());
    const std::uint64_t rows = step.range.end - end;
    const bool fits = of_row == 0 || rows <= left / of_row;
    end = end + (fits ? rows : left / of_row);
    if (!fits) break;
    left -= rows * of_row;
  }
  return std::min(ready, std::max(end, from + kLeastRows));
}

std::vector<cache::RowPiece> Restore::pieces(const RestoreUnit& unit) const {
  return unit.kind == Kind::kPoint ? lease_->point_pieces(*unit.point) : lease_->pieces(unit.range);
}

void Restore::note_done(const RestoreUnit& unit) {
  if (unit.kind == Kind::kPoint) point_ = false;
  if (unit.kind == Kind::kRows) lease_->release_until(unit.range.end);
}

// Counts tokens by the tier of their rows, whatever the point's tier is; of a window's parts the slowest tier counts.
void Restore::count(const RestoreUnit& unit, bool rowless, JobStats& stats) const {
  if (unit.kind == Kind::kRows) {
    for (const cache::LeasedStep& step : lease_->steps()) {
      const Position from = std::max(step.range.begin, unit.range.begin);
      const Position to = std::min(step.range.end, unit.range.end);
      if (from >= to) continue;
      stats.tokens_in(step.tier) += to - from;
      stats.source = source_of(step.tier);
    }
    return;
  }
  std::optional<cache::Tier> slowest;
  for (const cache::LeasedPoint& point : lease_->points()) {
    if (!puts_at(point, *unit.point)) continue;
    slowest = std::max(slowest.value_or(point.tier), point.tier);
  }
  if (!slowest) return;
  stats.point = std::max(stats.point, point_of(*slowest));
  if (!rowless) return;
  stats.count_memory(0, stats.point);
  stats.source = source_of(*slowest);
  stats.tokens_in(*slowest) = unit.point->value();
}

bool Restore::shorten(Position from) {
  gave_up_ = ++failed_reads_ >= kMostFailedReads;
  if (point_ || gave_up_) return false;  // another point may be the next best
  to_ = lease_->loaded_until(from);
  lease_->aim_at(to_);
  return true;
}

void Restore::give_up(const RestoreUnit& unit, const Error& error, cache::Cache& cache, JobStats& stats) {
  const bool short_of_cells = error.kind == ErrorKind::kNoSpace;
  miss_ = short_of_cells ? MissReason::kNoCells : MissReason::kLoadFailed;
  gave_up_ = true;
  if (short_of_cells) return;
  ++stats.refused_restores;
  for (const cache::LeasedStep& step : lease_->steps()) {
    const bool in = step.range.end > unit.range.begin && step.range.begin < unit.range.end;
    if (unit.kind == Kind::kRows && in) cache.report_damaged(step.segment, explain::LossCause::kRefused);
  }
  for (const cache::LeasedPoint& point : lease_->points()) {
    if (unit.kind == Kind::kPoint && puts_at(point, *unit.point))
      cache.report_damaged(point.id, explain::LossCause::kRefused);
  }
}

}  // namespace kvkeep::server
