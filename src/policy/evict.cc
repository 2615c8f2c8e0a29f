#include "policy/evict.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <tuple>
#include <unordered_map>

namespace kvkeep::policy {

namespace {

// A segment not used for this long is half as likely to be needed again: a working day's pauses keep a conversation,
// a week ends it.
constexpr double kHalfLifeS = 6 * 3600.0;
// At this depth attention costs as much as everything else of a token's prefill.
constexpr double kAttentionTokens = 16384;

// The order of leaving; ties (values decay to 0 after months) by age, then the end of a prefix before its beginning.
struct Leaving {
  double value;
  std::int64_t last_used_ns;
  std::size_t candidate;
};

class LeavesLater {
 public:
  explicit LeavesLater(const std::vector<EvictCandidate>& candidates) : candidates_(&candidates) {}
  bool operator()(const Leaving& a, const Leaving& b) const { return key(a) > key(b); }

 private:
  std::tuple<double, std::int64_t, std::int64_t, std::uint32_t> key(const Leaving& leaving) const {
    const EvictCandidate& candidate = (*candidates_)[leaving.candidate];
    return {leaving.value, leaving.last_used_ns, -std::int64_t{candidate.begin.value()}, candidate.segment.value()};
  }
  const std::vector<EvictCandidate>* candidates_;
};

// Per candidate: its parent's place among the candidates, and how many children are left.
struct Family {
  static constexpr std::size_t kNone = SIZE_MAX;
  std::vector<std::size_t> parent;
  std::vector<std::uint32_t> children;

  explicit Family(const std::vector<EvictCandidate>& candidates)
      : parent(candidates.size(), kNone), children(candidates.size(), 0) {
    std::unordered_map<SegmentId, std::size_t> places;
    places.reserve(candidates.size());
    for (std::size_t i = 0; i < candidates.size(); ++i) places.emplace(candidates[i].segment, i);
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const auto found = places.find(candidates[i].parent);
      if (candidates[i].parent == kRootSegment || found == places.end()) continue;
      parent[i] = found->second;
      ++children[found->second];
    }
  }
};

}  // namespace

double keep_value(const EvictCandidate& candidate, std::int64_t now_ns) {
  const double age_s = static_cast<double>(std::max<std::int64_t>(0, now_ns - candidate.last_used_ns)) / 1e9;
  const double likelihood = (1.0 + candidate.hits) * std::exp2(-age_s / kHalfLifeS);
  const double middle = candidate.begin.value() + candidate.tokens / 2.0;
  const double prefill_cost = candidate.tokens * (1.0 + middle / kAttentionTokens);
  return likelihood * prefill_cost / static_cast<double>(std::max<std::uint64_t>(1, candidate.bytes.value()));
}

std::vector<SegmentId> choose_victims(const EvictView& view, ByteCount needed) {
  const auto& candidates = view.candidates;
  Family family(candidates);
  std::priority_queue<Leaving, std::vector<Leaving>, LeavesLater> leaves{LeavesLater(candidates)};
  const auto add_leaf = [&](std::size_t i) {
    if (candidates[i].pinned || family.children[i] > 0) return;
    leaves.push({keep_value(candidates[i], view.now_ns), candidates[i].last_used_ns, i});
  };
  for (std::size_t i = 0; i < candidates.size(); ++i) add_leaf(i);
  std::vector<SegmentId> victims;
  ByteCount freed;
  while (freed < needed && !leaves.empty()) {
    const std::size_t i = leaves.top().candidate;
    leaves.pop();
    victims.push_back(candidates[i].segment);
    freed += candidates[i].bytes;
    const std::size_t parent = family.parent[i];
    if (parent == Family::kNone) continue;
    --family.children[parent];
    add_leaf(parent);
  }
  return victims;
}

}  // namespace kvkeep::policy
