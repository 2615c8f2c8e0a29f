// The kept order where candidates need each other, told of random changes, against choose_victims(), which works
// everything out anew from a view.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "base/test_seed.h"
#include "policy/evict_order.h"
#include "policy/numbers_fixture.h"

namespace kvkeep::policy {
namespace {

class PointsStory {
 public:
  PointsStory(std::uint64_t seed, std::uint32_t window_tokens)
      : random_(seed), window_tokens_(window_tokens), order_(kByValue, {true, window_tokens}) {}

  void step() {
    now_ns_ += static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(kHourNs)) + 1;
    if (below(40) == 0) order_.set_half_life(half_life_for((4 + below(30)) * kHourNs));
    const std::uint32_t what = below(12);
    if (known_.empty() || what < 4) return add();
    const SegmentId some = any();
    if (what == 4) return leave(some);
    if (what == 5) {
      pinned_.contains(some) ? (void)pinned_.erase(some) : (void)pinned_.insert(some);
      return;
    }
    EvictCandidate& candidate = known_.at(some);
    if (what == 6) candidate.bytes = ByteCount{1 + below(3) * 100};
    if (what == 7) candidate.kept_until_ns = now_ns_ + below(30) * kHourNs;
    if (what == 8) (below(2) == 0 ? candidate.absent : candidate.copy) ^= true;
    if (what == 9) candidate.outlook = static_cast<Outlook>(below(3));
    if (what >= 10) {
      candidate.last_used_ns = now_ns_;
      ++candidate.hits;
    }
    order_.put(candidate);
  }

  void check() {
    EvictView view{{}, now_ns_, true, window_tokens_};
    view.kept_room = ByteCount{below(2000)};
    view.points_only = below(4) == 0;
    view.half_life_ns = order_.half_life_ns();
    for (const auto& [id, candidate] : known_) view.candidates.push_back(candidate);
    for (EvictCandidate& candidate : view.candidates) candidate.pinned = pinned_.contains(candidate.segment);
    const auto want = choose_victims(view, ByteCount{1});
    const auto got = order_.choose({ByteCount{1}, SIZE_MAX, now_ns_, view.kept_room, view.points_only},
                                   [&](SegmentId id) { return pinned_.contains(id); });
    ASSERT_EQ(got, want);
    if (!want.empty() && below(3) == 0) leave(want.front());
  }

 private:
  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(random_() % bound); }
  SegmentId any() {
    return std::next(known_.begin(), static_cast<std::ptrdiff_t>(below(static_cast<std::uint32_t>(known_.size()))))
        ->first;
  }

  void add() {
    EvictCandidate added;
    added.segment = SegmentId{1 + below(60)};
    if (known_.contains(added.segment)) return;
    const auto above = known_.find(SegmentId{below(added.segment.value())});
    const bool hangs = above != known_.end() && above->second.kind == CandidateKind::kRows;
    added.tokens = 1 + below(5);
    if (hangs) {
      const EvictCandidate& segment = above->second;
      added.above = segment.segment;
      if (below(4) != 0) added.parent = added.above;  // there may be a copy in another tier
      const std::uint32_t within = below(segment.tokens);
      added.begin = segment.begin + within + 1;
      if (below(2) == 0) hang_leaf(added, segment, within);
    }
    added.bytes = ByteCount{100 + below(200)};
    added.last_used_ns = now_ns_;
    added.absent = below(5) == 0;
    added.copy = below(5) == 0;
    known_[added.segment] = added;
    order_.put(added);
  }
  void hang_leaf(EvictCandidate& leaf, const EvictCandidate& segment, std::uint32_t within) {
    leaf.kind = window_tokens_ > 0 ? CandidateKind::kWindow : CandidateKind::kPoint;
    leaf.tokens = 0;
    if (window_tokens_ == 0) {
      const auto base = known_.find(any());
      if (below(3) == 0 && base->second.kind == CandidateKind::kPoint) leaf.base = base->first;
      return;
    }
    leaf.begin = segment.begin + within;
    leaf.tokens = 1 + below(segment.tokens - within);
  }
  // With all that hangs below it or is built on it.
  void leave(SegmentId segment) {
    std::vector<SegmentId> hanging;
    for (const auto& [id, candidate] : known_) {
      if (candidate.above == segment || candidate.base == segment) hanging.push_back(id);
    }
    for (const SegmentId id : hanging) {
      if (known_.contains(id)) leave(id);
    }
    known_.erase(segment);
    pinned_.erase(segment);
    order_.erase(segment);
  }

  std::mt19937_64 random_;
  const std::uint32_t window_tokens_;
  EvictOrder order_;
  std::map<SegmentId, EvictCandidate> known_;
  std::set<SegmentId> pinned_;
  std::int64_t now_ns_ = 1'700'000'000'000'000'000;
};

TEST(EvictOrder, WithPointsIsThatOfTheNaiveTwin) {
  for (std::uint64_t number = 0; number < 60; ++number) {
    SCOPED_TRACE("story " + std::to_string(number));
    PointsStory story(test_seed() + number, static_cast<std::uint32_t>(number % 3) * 3);
    for (int i = 0; i < 400; ++i) {
      story.step();
      ASSERT_NO_FATAL_FAILURE(story.check()) << "step " << i;
    }
  }
}

// Six segments, some with a point or, if `window_tokens` is not 0, a window in them.
std::vector<EvictCandidate> random_trie(std::mt19937_64& random, std::uint32_t window_tokens) {
  std::vector<EvictCandidate> segments;
  std::vector<EvictCandidate> leaves;
  for (std::uint32_t id = 1; id <= 6; ++id) {
    EvictCandidate rows;
    rows.segment = SegmentId{id};
    rows.parent = rows.above = SegmentId{static_cast<std::uint32_t>(random() % id)};
    rows.tokens = 10;
    rows.bytes = ByteCount{100};
    rows.last_used_ns = static_cast<std::int64_t>(random() % 1000);
    if (rows.above != kRootSegment) rows.begin = segments[rows.above.value() - 1].begin + 1 + random() % 10;
    segments.push_back(rows);
    if (random() % 2 == 0) continue;
    EvictCandidate leaf = rows;
    leaf.segment = SegmentId{10 + id};
    leaf.parent = leaf.above = rows.segment;
    leaf.kind = window_tokens > 0 ? CandidateKind::kWindow : CandidateKind::kPoint;
    leaf.tokens = window_tokens > 0 ? 5 : 0;
    leaf.begin = rows.begin + (window_tokens > 0 ? random() % 5 : 1 + random() % 10);
    leaves.push_back(leaf);
  }
  segments.insert(segments.end(), leaves.begin(), leaves.end());
  return segments;
}

// What continues a segment may be told before it.
TEST(EvictOrder, WithPointsItIsTheSameInWhateverOrderTheyAreTold) {
  std::mt19937_64 random(test_seed());
  for (int i = 0; i < 3000; ++i) {
    const std::uint32_t window_tokens = i % 2 == 0 ? 7 : 0;
    std::vector<EvictCandidate> all = random_trie(random, window_tokens);
    EvictView view{all, 1000, true, window_tokens};
    EvictOrder order(kByValue, {true, window_tokens});
    std::ranges::shuffle(all, random);
    for (const EvictCandidate& candidate : all) {
      order.put(candidate);
      if (random() % 4 == 0) (void)order.choose({ByteCount{1}}, [](SegmentId) { return true; });
    }
    while (!view.candidates.empty()) {
      const auto want = choose_victims(view, ByteCount{1});
      ASSERT_EQ(order.choose({ByteCount{1}}, [](SegmentId) { return false; }), want) << i;
      std::erase_if(view.candidates, [&](const EvictCandidate& each) { return each.segment == want.front(); });
      order.erase(want.front());
    }
  }
}

}  // namespace
}  // namespace kvkeep::policy
