#include "policy/reach.h"

#include <algorithm>
#include <tuple>

namespace kvkeep::policy {

namespace {

class Reaches {
 public:
  explicit Reaches(const PlanView& view)
      : view_(view), limit_(Position{} + (view.prompt_tokens - 1)), cached_(cached_until()) {
    add_ways(nullptr, Position{});
    for (const Resident& resident : view.residents) {
      const Position shared = std::min({resident.common, resident.length, limit_});
      if (shared > Position{}) add_ways(&resident, shared);
    }
    std::ranges::sort(ways_, [](const Reach& a, const Reach& b) { return rank(a) > rank(b); });
  }

  Reach best() const {
    for (const Reach& way : ways_) {
      if (worth_it(way)) {
        Reach chosen = way;
        chosen.too_slow = way.to < ways_.front().to;
        return chosen;
      }
    }
    return {};  // not reached: the empty sequence loads nothing
  }

  std::vector<Reach> all() const {
    std::vector<Reach> ways = ways_;
    for (Reach& way : ways) way.too_slow = !worth_it(way);
    return ways;
  }

 private:
  static bool loads(const Reach& way) { return way.point || way.to > way.from_memory; }
  bool worth_it(const Reach& way) const {
    return !loads(way) || worth_restoring(view_.restore, view_.rates, cost(way));
  }

  static int disturbance(const Reach& way) {
    if (!way.source->idle) return 3;
    if (extends(*way.source, way.from_memory)) return 0;
    return way.source->captured ? 1 : 2;
  }

  static std::tuple<Position, Position, bool, int, std::int64_t, std::int32_t> rank(const Reach& way) {
    if (way.source == nullptr) return {way.to, way.from_memory, !way.point, 0, INT64_MIN, 0};
    return {way.to, way.from_memory, !way.point, -disturbance(way), way.source->last_used_ns, -way.source->seq.value()};
  }

  Position cached_until() const {
    return view_.cached.empty() ? Position{} : std::min(view_.cached.back().range.end, limit_);
  }

  // How far the rows go without reading a disk, if the first `from` are there.
  Position in_ram_until(Position from) const {
    Position end = from;
    for (const CachedStep& step : view_.cached) {
      if (step.range.end <= from) continue;
      if (step.on_disk) break;
      end = std::min(step.range.end, cached_);
    }
    return std::max(end, from);
  }

  // All ways that begin with the first `shared` tokens of a source, or none of them.
  void add_ways(const Resident* source, Position shared) {
    const bool stands = source == nullptr || !view_.needs_points || shared >= source->stands_from;
    if (stands) {
      ways_.push_back({source, shared, shared});
      in_memory_ = std::max(in_memory_, shared);
    }
    const Position rows = std::max(cached_, shared);
    const Position rows_in_ram = in_ram_until(shared);
    if (!view_.needs_points) {
      if (rows > shared) ways_.push_back({source, shared, rows});
      if (rows_in_ram > shared && rows_in_ram < rows) ways_.push_back({source, shared, rows_in_ram});
      return;
    }
    for (const Restorable& run : view_.restorable) {
      add_point(run, source, shared, rows);
      if (rows_in_ram < std::min(rows, run.last)) add_point(run, source, shared, rows_in_ram);
    }
  }

  // The last position of the run to which there are rows.
  void add_point(const Restorable& run, const Resident* source, Position shared, Position rows) {
    const Position to = std::min(run.last, rows);
    if (to == Position{} || to < run.first) return;
    ways_.push_back({source, std::min(shared, to), to, true});
  }

  // What it takes to load, against prefilling what lies beyond memory. A file is read whole, of its rows only the
  // wanted ones are copied.
  RestoreCost cost(const Reach& way) const {
    RestoreCost cost{way.to > in_memory_ ? way.to - in_memory_ : 0, {}, {}};
    for (const CachedStep& step : view_.cached) {
      const Position begin = std::max(step.range.begin, way.from_memory);
      const Position end = std::min(step.range.end, way.to);
      if (begin >= end) continue;
      cost.ram_bytes += ByteCount{step.bytes.value() * (end - begin) / step.range.size()};
      if (step.on_disk) cost.disk_bytes += step.bytes;
    }
    if (!way.point) return cost;
    const auto run = std::ranges::find_if(view_.restorable, [&](const Restorable& candidate) {
      return candidate.first <= way.to && way.to <= candidate.last;
    });
    cost.ram_bytes += run->bytes;
    if (run->on_disk) cost.disk_bytes += run->bytes;
    return cost;
  }

  const PlanView& view_;
  const Position limit_;   // the most that may be reused
  const Position cached_;  // the end of the cached rows that may be reused
  Position in_memory_;     // the furthest a resident stands by itself
  std::vector<Reach> ways_;
};

}  // namespace

Reach choose_reach(const PlanView& view) { return Reaches(view).best(); }

std::vector<Reach> all_reaches(const PlanView& view) { return Reaches(view).all(); }

}  // namespace kvkeep::policy
