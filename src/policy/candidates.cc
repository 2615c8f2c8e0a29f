#include "policy/candidates.h"

#include <algorithm>

#include "policy/reach.h"

namespace kvkeep::policy {

namespace {

using Kind = Candidate::Kind;
using Verdict = Candidate::Verdict;

class Explanation {
 public:
  explicit Explanation(const PlanView& view)
      : view_(view),
        limit_(Position{} + (view.prompt_tokens - 1)),
        chosen_(choose_reach(view)),
        ways_(all_reaches(view)) {}

  std::vector<Candidate> make() {
    for (const Resident& resident : view_.residents) add_resident(resident);
    for (auto begin = view_.cached.begin(); begin != view_.cached.end();) {
      const auto end = std::find_if(begin, view_.cached.end(),
                                    [&](const CachedStep& step) { return step.on_disk != begin->on_disk; });
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
    const bool stands = !view_.needs_points || shared >= resident.stands_from;
    Position reach = stands ? shared : Position{};
    Position furthest;  // with the cache's help
    for (const Reach& way : ways_) {
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
    if (furthest == Position{}) return Verdict::kCannotStand;
    return furthest < chosen_.to || shared < chosen_.from_memory ? Verdict::kShorter : Verdict::kAsFar;
  }

  void add_rows(std::span<const CachedStep> steps) {
    const bool first_on_disk = steps.front().on_disk;
    Candidate candidate{
        .kind = Kind::kRows, .run = {steps.front().range.begin, steps.back().range.end}, .on_disk = first_on_disk};
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
  const Reach* way_to(const Restorable& run) const {
    const auto found = std::ranges::find_if(
        ways_, [&](const Reach& way) { return way.point && run.first <= way.to && way.to <= run.last; });
    return found == ways_.end() ? nullptr : &*found;
  }

  void add_restorable(const Restorable& run) {
    Candidate candidate{
        .kind = Kind::kRestorable, .run = {run.first, run.last}, .on_disk = run.on_disk, .bytes = run.bytes};
    const Reach* way = way_to(run);
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
  const Reach chosen_;
  const std::vector<Reach> ways_;
  std::vector<Candidate> found_;
};

}  // namespace

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kTaken: return "taken";
    case Verdict::kNothingShared: return "nothing-shared";
    case Verdict::kCannotStand: return "cannot-stand";
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
