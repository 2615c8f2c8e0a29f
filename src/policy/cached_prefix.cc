#include "policy/cached_prefix.h"

#include <algorithm>
#include <optional>
#include <tuple>

namespace kvkeep::policy {

namespace {

class Prefixes {
 public:
  explicit Prefixes(const PlanView& view)
      : view_(view), limit_(Position{} + (view.prompt_tokens - 1)), cached_(cached_until()) {
    add_ways(nullptr, Position{});
    for (const Resident& resident : view.residents) {
      const Position shared = whole_until(std::min({resident.common, resident.length, limit_}));
      if (shared > Position{}) add_ways(&resident, shared);
    }
    std::ranges::sort(ways_, [this](const CachedPrefix& a, const CachedPrefix& b) { return rank(a) > rank(b); });
  }

  CachedPrefix best() const {
    for (const CachedPrefix& way : ways_) {
      if (worth_it(way)) {
        CachedPrefix chosen = way;
        chosen.too_slow = way.to < ways_.front().to;
        return chosen;
      }
    }
    return {};  // not reached: the empty sequence loads nothing
  }

  std::vector<CachedPrefix> all() const {
    std::vector<CachedPrefix> ways = ways_;
    for (CachedPrefix& way : ways) way.too_slow = !worth_it(way);
    return ways;
  }

 private:
  static bool loads(const CachedPrefix& way) { return way.point || way.to > way.from_memory; }
  bool worth_it(const CachedPrefix& way) const {
    return !loads(way) || worth_restoring(view_.restore, view_.rates, cost(way));
  }

  static int disturbance(const CachedPrefix& way) {
    if (!way.source->idle) return 3;
    if (extends(*way.source, way.from_memory)) return 0;
    return way.source->captured ? 1 : 2;
  }

  std::tuple<Position, Position, bool, int, std::int64_t, std::int32_t> rank(const CachedPrefix& way) const {
    if (way.source == nullptr) return {way.to, way.from_memory, !way.point, 0, INT64_MIN, 0};
    const Position from_memory = copies_from_ram_too(way) ? Position{} : way.from_memory;
    return {way.to, from_memory, !way.point, -disturbance(way), way.source->last_used_ns, -way.source->seq.value()};
  }

  // Returns true if the way copies rows from a sequence that RAM has, too.
  bool copies_from_ram_too(const CachedPrefix& way) const {
    return view_.forks_copy && way.source != nullptr && disturbance(way) > 0 &&
           rows_until({}, CacheTier::kRam) >= way.from_memory;
  }

  // The last position at or before `at` that lies within no run that is taken in as one.
  Position whole_until(Position at) const {
    for (const TokenRange& run : view_.whole) {
      if (run.begin < at && at < run.end) return run.begin;
    }
    return at;
  }

  Position cached_until() const {
    return view_.cached.empty() ? Position{} : whole_until(std::min(view_.cached.back().range.end, limit_));
  }

  // How far the rows go without reading a slower tier than `slowest`, if the first `from` are there.
  Position rows_until(Position from, CacheTier slowest) const {
    Position end = from;
    for (const CachedStep& step : view_.cached) {
      if (step.range.end <= from) continue;
      if (step.tier > slowest) break;
      end = std::min(step.range.end, cached_);
    }
    return std::max(whole_until(end), from);
  }

  // All ways that begin with the first `shared` tokens of a source, or none of them.
  void add_ways(const Resident* source, Position shared) {
    const bool complete = source == nullptr || !view_.needs_points || shared >= source->complete_from;
    if (complete) {
      ways_.push_back({source, shared, shared});
      if (!copies_from_ram_too(ways_.back())) in_memory_ = std::max(in_memory_, shared);
    }
    std::optional<Position> beyond;  // where the rows end that slower tiers give
    for (const CacheTier slowest : {CacheTier::kShared, CacheTier::kDisk, CacheTier::kRam}) {
      const Position rows = rows_until(shared, slowest);
      if (beyond && rows == *beyond) continue;
      if (!view_.needs_points && rows > shared) ways_.push_back({source, shared, rows});
      for (const Restorable& run : view_.restorable) {
        const bool new_way = !beyond || rows < run.last;
        if (view_.needs_points && new_way) add_point(run, source, shared, rows);
      }
      beyond = rows;
    }
  }

  // The last position of the run to which there are rows.
  void add_point(const Restorable& run, const Resident* source, Position shared, Position rows) {
    const Position to = whole_until(std::min(run.last, rows));
    if (to == Position{} || to < run.first) return;
    ways_.push_back({source, std::min(shared, to), to, true});
  }

  // The cost of loading a way, against prefilling its part beyond memory. A file is read whole; of its rows only the
  // wanted ones are copied.
  RestoreCost cost(const CachedPrefix& way) const {
    RestoreCost cost{way.to > in_memory_ ? way.to - in_memory_ : 0, {}, {}};
    for (const CachedStep& step : view_.cached) {
      const Position begin = std::max(step.range.begin, way.from_memory);
      const Position end = std::min(step.range.end, way.to);
      if (begin >= end) continue;
      cost.ram_bytes += ByteCount{step.bytes.value() * (end - begin) / step.range.size()};
      cost.add_read(step.tier, step.bytes);
    }
    if (!way.point) return cost;
    const auto run = std::ranges::find_if(view_.restorable, [&](const Restorable& candidate) {
      return candidate.first <= way.to && way.to <= candidate.last;
    });
    cost.ram_bytes += run->bytes;
    cost.add_read(run->tier, run->bytes);
    return cost;
  }

  const PlanView& view_;
  const Position limit_;   // the most that may be reused
  const Position cached_;  // the end of the cached rows that may be reused
  Position in_memory_;     // the furthest that a resident gives by itself
  std::vector<CachedPrefix> ways_;
};

}  // namespace

CachedPrefix choose_prefix(const PlanView& view) { return Prefixes(view).best(); }

std::vector<CachedPrefix> all_prefixes(const PlanView& view) { return Prefixes(view).all(); }

// ---- candidates ----

namespace {

using Kind = Candidate::Kind;
using Verdict = Candidate::Verdict;

class Explanation {
 public:
  explicit Explanation(const PlanView& view)
      : view_(view),
        limit_(Position{} + (view.prompt_tokens - 1)),
        chosen_(choose_prefix(view)),
        ways_(all_prefixes(view)) {}

  std::vector<Candidate> make() {
    for (const Resident& resident : view_.residents) add_resident(resident);
    for (auto begin = view_.cached.begin(); begin != view_.cached.end();) {
      const auto end =
          std::find_if(begin, view_.cached.end(), [&](const CachedStep& step) { return step.tier != begin->tier; });
      add_rows({begin, end});
      begin = end;
    }
    for (const Restorable& run : view_.restorable) add_restorable(run);
    return std::move(found_);
  }

 private:
  void add_resident(const Resident& resident) {
    const Position shared = std::min({resident.common, resident.length, limit_});
    Candidate candidate{.seq = resident.seq, .run = {Position{}, std::min(resident.common, resident.length)}};
    const bool complete = !view_.needs_points || shared >= resident.complete_from;
    Position reach = complete ? shared : Position{};
    Position furthest;  // with the cache's help
    for (const CachedPrefix& way : ways_) {
      if (way.source == &resident && !way.too_slow) furthest = std::max(furthest, way.to);
    }
    const bool taken = chosen_.source == &resident;
    candidate.reach = taken ? chosen_.to : std::max(reach, furthest);
    candidate.verdict = resident_verdict(resident, shared, furthest);
    found_.push_back(candidate);
  }

  Verdict resident_verdict(const Resident& resident, Position shared, Position furthest) const {
    if (chosen_.source == &resident) return Verdict::kTaken;
    if (std::min(resident.common, resident.length) == Position{}) return Verdict::kNothingShared;
    if (shared == Position{}) return Verdict::kLastToken;
    if (furthest == Position{}) return Verdict::kNotRestorable;
    return furthest < chosen_.to || shared < chosen_.from_memory ? Verdict::kShorter : Verdict::kAsFar;
  }

  void add_rows(std::span<const CachedStep> steps) {
    Candidate candidate{
        .kind = Kind::kRows, .run = {steps.front().range.begin, steps.back().range.end}, .tier = steps.front().tier};
    for (const CachedStep& step : steps) candidate.bytes += step.bytes;
    const Position end = std::min(candidate.run.end, limit_);
    const Position used_end = std::min(end, chosen_.to);
    const bool taken = std::max(candidate.run.begin, chosen_.from_memory) < used_end;
    if (!view_.needs_points) candidate.reach = end;
    if (taken) candidate.reach = used_end;
    if (taken)
      candidate.verdict = Verdict::kTaken;
    else if (candidate.run.begin >= limit_)
      candidate.verdict = Verdict::kLastToken;
    else if (end <= chosen_.from_memory)
      candidate.verdict = Verdict::kInMemory;
    else
      candidate.verdict = chosen_.too_slow ? Verdict::kTooSlow : Verdict::kNoPoint;
    found_.push_back(candidate);
  }

  // The best way that ends within the run, if there is one.
  const CachedPrefix* way_to(const Restorable& run) const {
    const auto found = std::ranges::find_if(
        ways_, [&](const CachedPrefix& way) { return way.point && run.first <= way.to && way.to <= run.last; });
    return found == ways_.end() ? nullptr : &*found;
  }

  void add_restorable(const Restorable& run) {
    Candidate candidate{.kind = Kind::kRestorable, .run = {run.first, run.last}, .tier = run.tier, .bytes = run.bytes};
    const CachedPrefix* way = way_to(run);
    if (way != nullptr) candidate.reach = way->to;
    if (way == nullptr) {
      candidate.verdict = run.first > limit_ ? Verdict::kLastToken : Verdict::kNoRows;
    } else if (chosen_.point && run.first <= chosen_.to && chosen_.to <= run.last) {
      candidate.verdict = Verdict::kTaken;
      candidate.reach = chosen_.to;
    } else if (way->to > chosen_.to) {
      candidate.verdict = Verdict::kTooSlow;
    } else {
      const bool in_memory = way->to <= chosen_.from_memory;
      candidate.verdict = in_memory ? Verdict::kInMemory : Verdict::kShorter;
    }
    found_.push_back(candidate);
  }

  const PlanView& view_;
  const Position limit_;  // the most that may be reused
  const CachedPrefix chosen_;
  const std::vector<CachedPrefix> ways_;
  std::vector<Candidate> found_;
};

}  // namespace

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kTaken: return "taken";
    case Verdict::kNothingShared: return "nothing-shared";
    case Verdict::kNotRestorable: return "cannot-stand";  // as schema 1 of the trace names it
    case Verdict::kNoRows: return "no-rows";
    case Verdict::kNoPoint: return "no-point";
    case Verdict::kLastToken: return "last-token";
    case Verdict::kInMemory: return "in-memory";
    case Verdict::kShorter: return "shorter";
    case Verdict::kAsFar: return "as-far";
    case Verdict::kTooSlow: return "too-slow";
  }
  return "taken";
}

std::vector<Candidate> candidates(const PlanView& view) { return Explanation(view).make(); }

}  // namespace kvkeep::policy
