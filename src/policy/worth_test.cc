// Eviction with points and windows: situations, then every small trie against a twin that works all values out anew
// before each victim.

#include "policy/worth.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "policy/evict.h"
#include "policy/evict_order.h"

namespace kvkeep::policy::worth_twin {
namespace {

using Chooser = std::function<std::vector<SegmentId>(const EvictView&, ByteCount)>;
constexpr ByteCount kEverything{UINT64_MAX};

EvictCandidate rows(std::uint32_t id, std::uint32_t above, std::uint32_t begin, std::uint32_t tokens) {
  EvictCandidate candidate;
  candidate.segment = SegmentId{id};
  candidate.parent = candidate.above = SegmentId{above};
  candidate.bytes = ByteCount{tokens * 10};
  candidate.tokens = tokens;
  candidate.begin = Position{begin};
  return candidate;
}

EvictCandidate point(std::uint32_t id, std::uint32_t above, std::uint32_t at) {
  EvictCandidate candidate = rows(id, above, at, 0);
  candidate.kind = CandidateKind::kPoint;
  candidate.bytes = ByteCount{1000};
  return candidate;
}

EvictCandidate window(std::uint32_t id, std::uint32_t above, std::uint32_t begin, std::uint32_t tokens) {
  EvictCandidate candidate = rows(id, above, begin, tokens);
  candidate.kind = CandidateKind::kWindow;
  candidate.bytes = ByteCount{tokens * 50};
  return candidate;
}

EvictView view_of(std::vector<EvictCandidate> candidates, std::uint32_t window_tokens = 0) {
  return {std::move(candidates), 0, true, window_tokens};
}

std::vector<std::uint32_t> order(const EvictView& view, ByteCount needed = kEverything) {
  std::vector<std::uint32_t> ids;
  for (const SegmentId victim : choose_victims(view, needed)) ids.push_back(victim.value());
  return ids;
}

using Ids = std::vector<std::uint32_t>;

TEST(Worth, AVeryLongPathLeavesFromItsEnd) {
  constexpr std::uint32_t kSegments = 200'000;
  EvictView view = view_of({});
  Ids expected;
  for (std::uint32_t id = 1; id <= kSegments; ++id) {
    view.candidates.push_back(rows(id, id - 1, id - 1, 1));
    expected.push_back(kSegments + 1 - id);
  }
  EXPECT_EQ(order(view), expected);
}

TEST(Worth, RowsWithoutAPointLeaveFirst) {
  const EvictView view = view_of({rows(1, 0, 0, 2000), point(2, 1, 2000), rows(3, 1, 2000, 2000), rows(4, 0, 0, 100)});
  EXPECT_EQ(order(view, ByteCount{1}), Ids{3}) << "of two that are worth nothing, the end of a prefix goes first";
  EXPECT_EQ(order(view), (Ids{3, 4, 2, 1}));
}

TEST(Worth, OfTwoPointsNearEachOtherOneStays) {
  const EvictView view = view_of({rows(1, 0, 0, 2000), point(2, 1, 1000), point(3, 1, 1010), point(4, 1, 2000)});
  EXPECT_EQ(order(view, ByteCount{1000}), Ids{3});
  EXPECT_EQ(order(view, ByteCount{2000}), (Ids{3, 2})) << "of the others the deeper one saves more";
}

TEST(Worth, APointGrowsWhenTheOneBeforeItLeaves) {
  const EvictView view = view_of({rows(1, 0, 0, 2000), point(2, 1, 900), point(3, 1, 1000)});
  Worth worth(view);
  const double alone = worth.value(1);
  const double before = worth.value(2);
  EXPECT_LT(before, alone / 4);
  EXPECT_TRUE(worth.forget(1) == std::vector<std::size_t>{1});
  EXPECT_GT(worth.value(2), alone);
  EXPECT_EQ(worth.value(1), 0);
}

TEST(Worth, ASavedPathCountsFromThePointOnItsOwnBranch) {
  // 4 branches off before the point at 1000.
  const EvictView view = view_of({rows(1, 0, 0, 1000), point(2, 1, 1000), rows(3, 1, 500, 600), point(4, 3, 1100)});
  const Worth worth(view);
  EXPECT_GT(worth.value(3), worth.value(1)) << "it saves 1100 tokens, not 100";
}

TEST(Worth, WindowsCountTogether) {
  // The last 100 before 200 lie in two windows of two segments.
  const EvictView view =
      view_of({rows(1, 0, 0, 150), window(2, 1, 90, 60), rows(3, 1, 150, 50), window(4, 3, 150, 50)}, 100);
  Worth worth(view);
  EXPECT_EQ(worth.value(1), worth.value(3)) << "the first ends no whole window of its own";
  EXPECT_GT(worth.value(1), 0);
  EXPECT_GT(worth.value(0), 0);
  worth.forget(1);
  EXPECT_EQ(worth.value(3), 0);
  EXPECT_EQ(worth.value(2), 0);
}

// A tool loop behind a user message of 100 tokens: its points save 1000 each, and are never returned to.
TEST(Worth, ThePointThatIsAwaitedStaysWhileThoseOfALoopLeave) {
  EvictView view = view_of({rows(1, 0, 0, 6100), point(2, 1, 2000), point(3, 1, 2100), point(4, 1, 3100),
                            point(5, 1, 4100), point(6, 1, 5100), point(7, 1, 6100)});
  EXPECT_EQ(order(view, ByteCount{1}), Ids{3}) << "it saves least";
  view.candidates[2].outlook = Outlook::kAwaited;
  for (std::size_t passed = 3; passed < 6; ++passed) view.candidates[passed].outlook = Outlook::kPassed;
  Ids victims = order(view, ByteCount{4000});
  std::ranges::sort(victims);
  EXPECT_EQ(victims, (Ids{2, 4, 5, 6})) << "the end of the loop stays, too";
}

TEST(Worth, AWindowThatAGapCutsOffIsWorthless) {
  const EvictView view = view_of({rows(1, 0, 0, 200), window(2, 1, 0, 50), window(3, 1, 60, 40)}, 100);
  const Worth worth(view);
  EXPECT_GT(worth.value(1), 0) << "it reaches back to the beginning";
  EXPECT_EQ(worth.value(2), 0);
}

TEST(Worth, WhatHasACopyElsewhereStaysOfUse) {
  EvictView view = view_of({rows(1, 0, 0, 100), point(2, 1, 100)});
  view.candidates[1].copy = true;
  EXPECT_EQ(order(view), (Ids{2, 1}));
  view.candidates[0].parent = kRootSegment;
  view.candidates[1].parent = kRootSegment;
  view.candidates[1].absent = true;
  EXPECT_EQ(order(view), Ids{1});
  EXPECT_GT(Worth(view).value(0), 0) << "the point lies in another tier";
}

// ---- every small trie ----

struct TwinStop {
  std::uint32_t at = 0;
  const EvictCandidate* home = nullptr;
  std::vector<const EvictCandidate*> leaves;
  Outlook outlook = Outlook::kOpen;
};

std::uint32_t end_of(const EvictCandidate& candidate) { return candidate.begin.value() + candidate.tokens; }

// All that is known of a view, worked out from nothing.
class Twin {
 public:
  explicit Twin(const EvictView& view) : view_(view) {
    for (const EvictCandidate& candidate : view.candidates) {
      if (candidate.kind == CandidateKind::kRows || !reachable(candidate)) continue;
      TwinStop stop{end_of(candidate), find(candidate.above), {&candidate}, candidate.outlook};
      if (candidate.kind == CandidateKind::kPoint || complete(stop)) stops_.push_back(stop);
    }
  }

  double value(const EvictCandidate& candidate) const {
    if (candidate.kind == CandidateKind::kRows) {
      const bool of_use =
          std::ranges::any_of(stops_, [&](const TwinStop& stop) { return below(stop.home, candidate); });
      return of_use ? keep_value(candidate, view_.now_ns) : 0;
    }
    double value = 0;
    for (const TwinStop& stop : stops_) {
      if (std::ranges::find(stop.leaves, &candidate) == stop.leaves.end()) continue;
      std::uint64_t bytes = 0;
      for (const EvictCandidate* leaf : stop.leaves) bytes += leaf->bytes.value();
      EvictCandidate saved = candidate;  // the same use, of what the stop saves
      const std::uint32_t begin = stop.outlook == Outlook::kAwaited ? 0 : before(stop);
      saved.begin = Position{begin};
      saved.tokens = stop.at - begin;
      saved.bytes = ByteCount{bytes};
      value += keep_value(saved, view_.now_ns) / (stop.outlook == Outlook::kPassed ? 4 : 1);
    }
    return value;
  }

 private:
  const EvictCandidate* find(SegmentId segment) const {
    const auto found = std::ranges::find(view_.candidates, segment, &EvictCandidate::segment);
    return found == view_.candidates.end() ? nullptr : &*found;
  }
  bool below(const EvictCandidate* segment, const EvictCandidate& above) const {
    for (; segment != nullptr; segment = find(segment->above)) {
      if (segment == &above) return true;
    }
    return false;
  }
  bool reachable(const EvictCandidate& candidate) const {
    if (candidate.above == kRootSegment) return true;
    const EvictCandidate* above = find(candidate.above);
    return above != nullptr && reachable(*above);
  }
  // Every position of the window before the stop lies in a leaf of the segment that holds it on this path.
  bool complete(TwinStop& stop) const {
    for (std::uint32_t back = 1; back <= std::min(stop.at, view_.window_tokens); ++back) {
      const std::uint32_t position = stop.at - back;
      const EvictCandidate* segment = stop.home;
      while (segment != nullptr && segment->begin.value() > position) segment = find(segment->above);
      const auto holds = [&](const EvictCandidate& leaf) {
        return segment != nullptr && leaf.kind == CandidateKind::kWindow && leaf.above == segment->segment &&
               leaf.begin.value() <= position && position < end_of(leaf);
      };
      const auto found = std::ranges::find_if(view_.candidates, holds);
      if (found == view_.candidates.end()) return false;
      if (std::ranges::find(stop.leaves, &*found) == stop.leaves.end()) stop.leaves.push_back(&*found);
    }
    return true;
  }
  std::uint32_t before(const TwinStop& stop) const {
    std::uint32_t best = 0;
    for (const TwinStop& other : stops_) {
      if (other.at >= stop.at) continue;
      std::uint32_t limit = stop.at;
      const EvictCandidate* segment = stop.home;
      for (; segment != nullptr && segment != other.home; segment = find(segment->above))
        limit = segment->begin.value();
      if (segment != nullptr && other.at <= limit) best = std::max(best, other.at);
    }
    return best;
  }

  const EvictView& view_;
  std::vector<TwinStop> stops_;
};

std::vector<SegmentId> naive(EvictView view, ByteCount needed) {
  std::vector<SegmentId> victims;
  for (ByteCount freed; freed < needed;) {
    const Twin twin(view);
    using Key = std::tuple<double, std::int64_t, std::int64_t, SegmentId>;
    std::optional<Key> least;
    for (const EvictCandidate& candidate : view.candidates) {
      const bool has_child = std::ranges::any_of(view.candidates, [&](const EvictCandidate& other) {
        return !other.absent && other.parent == candidate.segment;
      });
      if (candidate.pinned || candidate.absent || has_child) continue;
      const Key key{twin.value(candidate), candidate.last_used_ns, -std::int64_t{candidate.begin.value()},
                    candidate.segment};
      if (!least || key < *least) least = key;
    }
    if (!least) break;
    victims.push_back(std::get<SegmentId>(*least));
    const auto victim = std::ranges::find(view.candidates, victims.back(), &EvictCandidate::segment);
    freed += victim->bytes;
    victim->copy ? void(victim->absent = true) : void(view.candidates.erase(victim));
  }
  return victims;
}

// Leaves of a segment [begin, begin + 2), by number: points at any of its ends, or windows of any cut.
void add_leaves(std::vector<EvictCandidate>& all, std::uint32_t above, std::uint32_t begin, std::uint32_t kind,
                bool windows) {
  const auto id = static_cast<std::uint32_t>(10 * above);
  if (windows && kind == 4) return all.push_back(window(id, above, begin, 2));
  for (std::uint32_t i = 0; i < 2; ++i) {
    if ((kind >> i & 1U) == 0) continue;
    all.push_back(windows ? window(id + i, above, begin + i, 1) : point(id + i, above, begin + i + 1));
  }
}

// Calls visit for every trie of three segments of two tokens with every set of leaves; stops at the first complaint.
std::string each_trie(bool windows, const std::function<std::string(std::vector<EvictCandidate>)>& visit) {
  const std::uint32_t kinds = windows ? 5 : 4;
  for (const auto& [second, second_begin] : {std::pair{0U, 0U}, {1U, 1U}, {1U, 2U}}) {
    for (const auto& [third, third_at] : {std::pair{0U, 0U}, {1U, 1U}, {1U, 2U}, {2U, 1U}, {2U, 2U}}) {
      const std::uint32_t third_begin = third == 2 ? second_begin + third_at : third_at;
      for (std::uint32_t leaves = 0; leaves < kinds * kinds * kinds; ++leaves) {
        std::vector<EvictCandidate> all{rows(1, 0, 0, 2), rows(2, second, second_begin, 2),
                                        rows(3, third, third_begin, 2)};
        add_leaves(all, 1, 0, leaves % kinds, windows);
        add_leaves(all, 2, second_begin, leaves / kinds % kinds, windows);
        add_leaves(all, 3, third_begin, leaves / kinds / kinds, windows);
        if (auto what = visit(std::move(all)); !what.empty()) return what;
      }
    }
  }
  return "";
}

// Ages, hits, pins, copies and absent ones in no order of the trie.
void mix(std::vector<EvictCandidate>& candidates, std::uint32_t salt) {
  for (EvictCandidate& candidate : candidates) {
    candidate.outlook = Outlook::kOpen;
    const std::uint32_t mixed = (candidate.segment.value() * 7 + salt * 13 + candidate.begin.value()) % 11;
    candidate.last_used_ns = -std::int64_t{mixed % 4} * 3'600'000'000'000;
    candidate.hits = mixed % 2;
    candidate.pinned = mixed == 7;
    if (mixed == 2 || mixed == 6) candidate.outlook = Outlook::kAwaited;
    if (mixed == 1 || mixed == 9) candidate.outlook = Outlook::kPassed;
    if (salt == 0 || candidate.kind == CandidateKind::kRows) continue;
    candidate.copy = mixed == 3 || mixed == 8;
    candidate.absent = mixed == 5;
    if (candidate.copy || candidate.absent) candidate.parent = kRootSegment;
  }
}

std::string explore(const Chooser& choose) {
  for (const std::uint32_t window_tokens : {0U, 1U, 2U, 3U}) {
    auto what = each_trie(window_tokens > 0, [&](std::vector<EvictCandidate> candidates) -> std::string {
      for (const std::uint32_t salt : {0U, 1U}) {
        mix(candidates, salt);
        const EvictView view = view_of(candidates, window_tokens);
        for (const ByteCount needed : {ByteCount{100}, kEverything}) {
          if (choose(view, needed) != naive(view, needed)) return "another choice than the twin's";
        }
      }
      return "";
    });
    if (!what.empty()) return what;
  }
  return "";
}

TEST(Worth, AgreesWithTheTwinOnEverySmallTrie) { EXPECT_EQ(explore(choose_victims), ""); }

// One at a time, each told to the order when it left.
std::vector<SegmentId> choose_in_order(const EvictView& view, ByteCount needed) {
  EvictOrder order(*view.score, {view.needs_points, view.window_tokens});
  std::map<SegmentId, EvictCandidate> known;
  for (const EvictCandidate& candidate : view.candidates) {
    known[candidate.segment] = candidate;
    order.put(candidate);
  }
  std::vector<SegmentId> victims;
  for (ByteCount freed; freed < needed; freed += known.at(victims.back()).bytes) {
    const auto next = order.choose({needed}, [&](SegmentId id) { return known.at(id).pinned; });
    if (next.empty()) break;
    victims.push_back(next.front());
    EvictCandidate& victim = known.at(next.front());
    victim.absent = true;
    victim.copy ? order.put(victim) : order.erase(victim.segment);
  }
  return victims;
}

TEST(EvictOrder, AgreesWithTheTwinOnEverySmallTrieWithPoints) { EXPECT_EQ(explore(choose_in_order), ""); }

TEST(Worth, TheTwinCatchesMutants) {
  const auto seeing = [](std::function<void(EvictView&)> change) {
    return [change](EvictView view, ByteCount needed) {
      change(view);
      return choose_victims(view, needed);
    };
  };
  const auto each = [](std::function<void(EvictCandidate&)> change) {
    return [change](EvictView& view) { std::ranges::for_each(view.candidates, change); };
  };
  const std::vector<Chooser> mutants{
      seeing([](EvictView& view) { view.needs_points = false; }),
      seeing([](EvictView& view) { ++view.window_tokens; }),
      seeing([](EvictView& view) { view.window_tokens = std::min(view.window_tokens, 1U); }),
      seeing(each([](EvictCandidate& candidate) { candidate.copy = false; })),
      seeing(each([](EvictCandidate& candidate) { candidate.absent = false; })),
      seeing(each([](EvictCandidate& candidate) { candidate.pinned = false; })),
      seeing(each([](EvictCandidate& candidate) {
        if (candidate.outlook == Outlook::kAwaited) candidate.outlook = Outlook::kOpen;
      })),
      seeing(each([](EvictCandidate& candidate) {
        if (candidate.outlook == Outlook::kPassed) candidate.outlook = Outlook::kOpen;
      })),
      seeing(each([](EvictCandidate& candidate) { candidate.above = kRootSegment; })),
      seeing(each([](EvictCandidate& candidate) { candidate.kind = CandidateKind::kPoint; })),
      seeing(each([](EvictCandidate& candidate) {
        if (candidate.kind == CandidateKind::kPoint) candidate.begin = candidate.begin + 1;
      })),
  };
  for (std::size_t i = 0; i < mutants.size(); ++i) EXPECT_NE(explore(mutants[i]), "") << "mutant " << i;
}

}  // namespace
}  // namespace kvkeep::policy::worth_twin
