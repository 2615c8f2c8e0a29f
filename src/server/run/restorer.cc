#include "server/run/restorer.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "cache/cache.h"
#include "server/run/inbox.h"
#include "server/run/sequences.h"

namespace kvkeep::server {

namespace {

using Kind = RestoreUnit::Kind;

// Rates differ from one moment to the next, so that a turn consists of several units and looks at the clock in between.
constexpr double kUnitsOfTurn = 4;

// Returns how many bytes of a unit's pieces are copied.
double bytes_of(const RestoreUnit& unit, const std::vector<cache::RowPiece>& pieces) {
  double bytes = 0;
  for (const cache::RowPiece& piece : pieces) {
    const std::size_t size = piece.bytes.size();
    bytes += static_cast<double>(unit.kind == Kind::kPoint ? size : size * piece.wanted.size() / piece.stored.size());
  }
  return bytes;
}

ByteCount as_bytes(double count) { return ByteCount{static_cast<std::uint64_t>(count)}; }

}  // namespace

Restorer::Restorer(const RestorerOptions& options, cache::ModelMemory& memory, Sequences& sequences,
                   cache::Cache& cache, os::Clock& clock, Inbox& inbox, policy::RateMeter& rates,
                   std::function<bool(const Request&, std::size_t count)> find_cells)
    : options_(options),
      memory_(memory),
      sequences_(sequences),
      cache_(cache),
      clock_(clock),
      inbox_(inbox),
      rates_(rates),
      find_cells_(std::move(find_cells)) {}

RestoreTurn Restorer::begin_turn(bool shared) const {
  if (!shared) return {};
  return {.most_ms = options_.slice_ms};
}

Restorer::Outcome Restorer::go_on(Request& request, RestoreTurn& turn) {
  for (;;) {
    const RestoreUnit unit = request.restore.next(sequences_[*request.seq].end(), steps(turn));
    if (unit.kind == Kind::kNone) return Outcome::kDone;
    if (unit.kind == Kind::kRead) {
      begin_read(request, unit);
      return Outcome::kReads;
    }
    const double bytes = bytes_of(unit, request.restore.pieces(unit));
    if (!has_time(turn, bytes)) return pause(request, turn);
    const std::int64_t begin_ns = clock_.monotonic_ns();
    // Replies may have grown into the cells that the plan counted on.
    if (!find_cells_(request, unit.range.size())) return Outcome::kNoCells;
    const bool is_put = put(request, unit);
    ++turn.units;
    turn.spent_ms += ms_since(begin_ns);
    if (!is_put) return Outcome::kRefused;
  }
}

// With cells of their own all rows come in one unit, and a point does always: they are put whole.
RestoreSteps Restorer::steps(const RestoreTurn& turn) const {
  RestoreSteps steps{.most_read = options_.load_window, .rows_at_once = memory_.own_cells()};
  if (!turn.limited()) return steps;
  const double unit_ms = std::clamp(turn.most_ms - turn.spent_ms, 0.0, turn.most_ms / kUnitsOfTurn);
  const ByteCount by_time = as_bytes(rates_.rates().ram_restore_bytes_per_s * unit_ms / 1e3);
  steps.most_put = turn.most_ms > 0 ? by_time : options_.load_window;
  return steps;
}

// The first unit of a turn is put however long it takes, so that each turn brings something forward.
bool Restorer::has_time(const RestoreTurn& turn, double bytes) const {
  if (turn.over) return false;
  if (turn.units == 0 || !turn.limited()) return true;
  const double bytes_per_s = rates_.rates().ram_restore_bytes_per_s;
  return bytes_per_s > 0 && turn.spent_ms + bytes / bytes_per_s * 1e3 <= turn.most_ms;
}

Restorer::Outcome Restorer::pause(Request& request, RestoreTurn& turn) {
  turn.over = true;
  request.phase = Request::Phase::kRestoring;
  request.stats.waits.begin(WaitCause::kTurn, clock_.monotonic_ns());
  return Outcome::kPaused;
}

void Restorer::begin_read(Request& request, const RestoreUnit& unit) {
  request.phase = Request::Phase::kLoading;
  request.load_started_ns = clock_.monotonic_ns();
  request.stats.waits.begin(WaitCause::kDisk, request.load_started_ns);
  cache_.load(
      request.restore.lease(), unit.range,
      [this, target = &request](cache::LoadResult result) { inbox_.deliver({target, std::move(result)}); }, unit.point);
}

// Puts a unit into the model's memory. Returns false if the memory refused.
bool Restorer::put(Request& request, const RestoreUnit& unit) {
  const std::vector<cache::RowPiece> pieces = request.restore.pieces(unit);
  const bool point = unit.kind == Kind::kPoint;
  const TokenSpan tokens = TokenSpan(request.effective.tokens).first(unit.range.end.value());
  const std::int64_t begin_ns = clock_.monotonic_ns();
  request.stats.waits.end(begin_ns);
  const Status restored =
      point ? sequences_.restore_point(*request.seq, pieces) : sequences_.restore_rows(*request.seq, pieces, tokens);
  const double ms = ms_since(begin_ns);
  request.stats.load_ms += ms;
  if (!restored) {
    spdlog::warn("kv cache restore failed: {}; prefilling instead id={}", restored.error().message, request.job.id);
    request.restore.give_up(unit, restored.error(), cache_, request.stats);
    return false;
  }
  const double bytes = bytes_of(unit, pieces);
  rates_.note_restored(bytes, ms);
  request.stats.restored.add(as_bytes(bytes), ms);
  if (!request.start_counted) request.restore.count(unit, memory_.rows_bytes(1) == 0, request.stats);
  request.restore.note_done(unit);
  return true;
}

}  // namespace kvkeep::server
