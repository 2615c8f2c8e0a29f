#include "policy/evict.h"

#include <algorithm>
#include <queue>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "policy/worth.h"

namespace kvkeep::policy {

namespace {

// The order of leaving; ties (values decay to 0 after months) by age, then the end of a prefix before its beginning.
struct Leaving {
  bool kept;
  double value;
  std::int64_t last_used_ns;
  std::size_t candidate;
};

class LeavesLater {
 public:
  explicit LeavesLater(const std::vector<EvictCandidate>& candidates) : candidates_(&candidates) {}
  bool operator()(const Leaving& a, const Leaving& b) const { return key(a) > key(b); }

 private:
  std::tuple<bool, double, std::int64_t, std::int64_t, std::uint32_t> key(const Leaving& leaving) const {
    const EvictCandidate& candidate = (*candidates_)[leaving.candidate];
    return {leaving.kept, leaving.value, leaving.last_used_ns, -std::int64_t{candidate.begin.value()},
            candidate.segment.value()};
  }
  const std::vector<EvictCandidate>* candidates_;
};

// Per candidate: the places of its parent and its base among the candidates, and how many are left in the tier that
// it is either to.
struct Family {
  static constexpr std::size_t kNone = SIZE_MAX;
  std::vector<std::size_t> parent;
  std::vector<std::size_t> base;
  std::vector<std::uint32_t> children;

  explicit Family(const std::vector<EvictCandidate>& candidates)
      : parent(candidates.size(), kNone), base(candidates.size(), kNone), children(candidates.size(), 0) {
    std::unordered_map<SegmentId, std::size_t> places;
    places.reserve(candidates.size());
    for (std::size_t i = 0; i < candidates.size(); ++i) places.emplace(candidates[i].segment, i);
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (candidates[i].absent) continue;
      for (const auto& [name, place] : {std::pair{candidates[i].parent, &parent[i]}, {candidates[i].base, &base[i]}}) {
        const auto found = name == kRootSegment ? places.end() : places.find(name);
        if (found == places.end()) continue;
        *place = found->second;
        ++children[found->second];
      }
    }
  }
};

// By candidate: whether it leaves after all that is not kept.
std::vector<bool> kept_candidates(const EvictView& view) {
  std::vector<std::size_t> asked;
  for (std::size_t i = 0; i < view.candidates.size(); ++i) {
    const std::int64_t left_ns = view.candidates[i].kept_until_ns - view.now_ns;
    if (left_ns > 0 && left_ns <= kLongestKeepNs && !view.candidates[i].absent) asked.push_back(i);
  }
  std::ranges::sort(asked, {}, [&](std::size_t i) {
    const EvictCandidate& candidate = view.candidates[i];
    return std::tuple(-candidate.kept_until_ns, candidate.begin, candidate.segment);
  });
  std::vector<bool> kept(view.candidates.size());
  ByteCount total;
  for (const std::size_t i : asked) {
    total += view.candidates[i].bytes;
    if (total > view.kept_room) break;
    kept[i] = true;
  }
  return kept;
}

// Takes the least valuable leaf again and again. Values in the queue may be out of date: one that grew is put back when
// its turn comes, one that fell is added anew at once.
class Chooser {
 public:
  explicit Chooser(const EvictView& view)
      : view_(view),
        candidates_(view.candidates),
        family_(candidates_),
        worth_(view),
        kept_(kept_candidates(view)),
        gone_(candidates_.size(), false),
        queue_(LeavesLater(candidates_)) {
    for (std::size_t i = 0; i < candidates_.size(); ++i) add(i);
  }

  std::vector<SegmentId> choose(ByteCount needed) {
    std::vector<SegmentId> victims;
    for (ByteCount freed; freed < needed && !queue_.empty();) {
      const Leaving least = queue_.top();
      queue_.pop();
      if (gone_[least.candidate]) continue;
      if (view_.needs_points && worth_.value(least.candidate) > least.value) {
        add(least.candidate);
        continue;
      }
      victims.push_back(candidates_[least.candidate].segment);
      freed += candidates_[least.candidate].bytes;
      leave(least.candidate);
    }
    return victims;
  }

 private:
  void add(std::size_t i) {
    if (gone_[i] || candidates_[i].pinned || candidates_[i].absent || family_.children[i] > 0) return;
    if (view_.points_only && candidates_[i].kind == CandidateKind::kRows) return;
    queue_.push({kept_[i], worth_.value(i), candidates_[i].last_used_ns, i});
  }

  void leave(std::size_t i) {
    gone_[i] = true;
    if (!candidates_[i].copy) {
      for (const std::size_t fell : worth_.forget(i)) add(fell);
    }
    for (const std::size_t later : {family_.parent[i], family_.base[i]}) {
      if (later == Family::kNone) continue;
      --family_.children[later];
      add(later);
    }
  }

  const EvictView& view_;
  const std::vector<EvictCandidate>& candidates_;
  Family family_;
  Worth worth_;
  std::vector<bool> kept_;
  std::vector<bool> gone_;
  std::priority_queue<Leaving, std::vector<Leaving>, LeavesLater> queue_;
};

}  // namespace

std::vector<SegmentId> choose_victims(const EvictView& view, ByteCount needed) { return Chooser(view).choose(needed); }

}  // namespace kvkeep::policy
