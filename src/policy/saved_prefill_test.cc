// Prefill that candidates save together: situations, then every small trie against the naive twin.

#include "policy/saved_prefill.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "policy/evict_twin_fixture.h"

namespace kvkeep::policy::saved_twin {
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
  return {std::move(candidates), {true, window_tokens}};
}

SavedPrefill saved_in(const EvictView& view) {
  SavedPrefill saved(view.shape.window_tokens);
  for (const EvictCandidate& candidate : view.candidates) saved.put(candidate);
  return saved;
}

std::vector<std::uint32_t> order(const EvictView& view, ByteCount needed = kEverything) {
  std::vector<std::uint32_t> ids;
  for (const SegmentId victim : victims_of<EvictOrder>(view, needed)) ids.push_back(victim.value());
  return ids;
}

using Ids = std::vector<std::uint32_t>;

TEST(SavedPrefill, AVeryLongPathLeavesFromItsEnd) {
  constexpr std::uint32_t kSegments = 200'000;
  EvictView view = view_of({});
  Ids expected;
  for (std::uint32_t id = 1; id <= kSegments; ++id) {
    view.candidates.push_back(rows(id, id - 1, id - 1, 1));
    expected.push_back(kSegments + 1 - id);
  }
  EXPECT_EQ(order(view), expected);
}

TEST(SavedPrefill, RowsWithoutAPointLeaveFirst) {
  const EvictView view = view_of({rows(1, 0, 0, 2000), point(2, 1, 2000), rows(3, 1, 2000, 2000), rows(4, 0, 0, 100)});
  EXPECT_EQ(order(view, ByteCount{1}), Ids{3}) << "of two that save nothing, the end of a prefix goes first";
  EXPECT_EQ(order(view), (Ids{3, 4, 2, 1}));
}

TEST(SavedPrefill, OneOfTwoNeighbouringPointsStays) {
  const EvictView view = view_of({rows(1, 0, 0, 2000), point(2, 1, 900), point(3, 1, 1010), point(4, 1, 2000)});
  EXPECT_EQ(order(view, ByteCount{1000}), Ids{3});
  EXPECT_EQ(order(view, ByteCount{2000}), (Ids{3, 2})) << "of the others the deeper one saves more now";
}

TEST(SavedPrefill, APointSavesMoreWhenTheOneBeforeItLeaves) {
  SavedPrefill saved = saved_in(view_of({rows(1, 0, 0, 2000), point(2, 1, 900), point(3, 1, 1000)}));
  const double first = saved.per_byte(SegmentId{2});
  EXPECT_LT(saved.per_byte(SegmentId{3}), first / 4);
  (void)saved.take_changed();
  saved.erase(SegmentId{2});
  EXPECT_GT(saved.per_byte(SegmentId{3}), first);
  const auto changed = saved.take_changed();
  EXPECT_TRUE(std::ranges::find(changed, SegmentId{3}) != changed.end());
}

TEST(SavedPrefill, ASavedPathCountsFromThePointOnItsOwnBranch) {
  // 4 branches off before the point at 1000.
  const SavedPrefill saved =
      saved_in(view_of({rows(1, 0, 0, 1000), point(2, 1, 1000), rows(3, 1, 500, 600), point(4, 3, 1100)}));
  EXPECT_GT(saved.per_byte(SegmentId{4}), saved.per_byte(SegmentId{2})) << "it saves 1100 tokens, not 100";
}

TEST(SavedPrefill, WindowsCountTogether) {
  // The last 100 before 200 lie in two windows of two segments.
  SavedPrefill saved =
      saved_in(view_of({rows(1, 0, 0, 150), window(2, 1, 90, 60), rows(3, 1, 150, 50), window(4, 3, 150, 50)}, 100));
  EXPECT_EQ(saved.per_byte(SegmentId{2}), saved.per_byte(SegmentId{4})) << "the first ends no whole window of its own";
  EXPECT_GT(saved.per_byte(SegmentId{2}), 0);
  EXPECT_GT(saved.per_byte(SegmentId{1}), 0);
  saved.erase(SegmentId{2});
  EXPECT_EQ(saved.per_byte(SegmentId{4}), 0);
  EXPECT_EQ(saved.per_byte(SegmentId{3}), 0);
}

// A tool loop after a user message of 100 tokens: its points save 1000 each, and are never returned to.
TEST(SavedPrefill, ThePointThatIsAwaitedStaysWhileThoseOfALoopLeave) {
  EvictView view = view_of({rows(1, 0, 0, 6100), point(2, 1, 2000), point(3, 1, 2100), point(4, 1, 3100),
                            point(5, 1, 4100), point(6, 1, 5100), point(7, 1, 6100)});
  EXPECT_EQ(order(view, ByteCount{1}), Ids{3}) << "it saves least";
  view.candidates[2].outlook = Outlook::kAwaited;
  for (std::size_t passed = 3; passed < 6; ++passed) view.candidates[passed].outlook = Outlook::kPassed;
  Ids victims = order(view, ByteCount{4000});
  std::ranges::sort(victims);
  EXPECT_EQ(victims, (Ids{2, 4, 5, 6})) << "the end of the loop stays, too";
}

TEST(SavedPrefill, AWindowThatAGapCutsOffSavesNothing) {
  const SavedPrefill saved = saved_in(view_of({rows(1, 0, 0, 200), window(2, 1, 0, 50), window(3, 1, 60, 40)}, 100));
  EXPECT_GT(saved.per_byte(SegmentId{2}), 0) << "it reaches back to the beginning";
  EXPECT_EQ(saved.per_byte(SegmentId{3}), 0);
}

TEST(SavedPrefill, RowsWhosePointHasACopyElsewhereStayOfUse) {
  EvictView view = view_of({rows(1, 0, 0, 100), point(2, 1, 100)});
  view.copies = {SegmentId{2}};
  EXPECT_EQ(order(view), (Ids{2, 1}));
  view.candidates[0].parent = kRootSegment;
  view.candidates[1].parent = kRootSegment;
  view.candidates[1].absent = true;
  EXPECT_EQ(order(view), Ids{1});
  EXPECT_GT(saved_in(view).per_byte(SegmentId{1}), 0) << "the point lies in another tier";
}

// ---- every small trie ----

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

// Ages, pins, copies and absent ones in no order of the trie.
void mix(EvictView& view, std::uint32_t salt) {
  for (EvictCandidate& candidate : view.candidates) {
    candidate.outlook = Outlook::kOpen;
    const std::uint32_t mixed = (candidate.segment.value() * 7 + salt * 13 + candidate.begin.value()) % 11;
    candidate.last_used_ns = -std::int64_t{mixed % 4} * 3'600'000'000'000;
    if (mixed == 7) view.pinned.insert(candidate.segment);
    if (mixed == 2 || mixed == 6) candidate.outlook = Outlook::kAwaited;
    if (mixed == 1 || mixed == 9) candidate.outlook = Outlook::kPassed;
    if (salt == 0 || candidate.kind == CandidateKind::kRows) continue;
    const bool copy = mixed == 3 || mixed == 8;
    if (copy) view.copies.insert(candidate.segment);
    candidate.absent = mixed == 5;
    if (copy || candidate.absent) candidate.parent = kRootSegment;
  }
}

std::string explore(const Chooser& choose) {
  for (const std::uint32_t window_tokens : {0U, 1U, 2U, 3U}) {
    auto what = each_trie(window_tokens > 0, [&](std::vector<EvictCandidate> candidates) -> std::string {
      for (const std::uint32_t salt : {0U, 1U}) {
        EvictView view = view_of(candidates, window_tokens);
        mix(view, salt);
        for (const ByteCount needed : {ByteCount{100}, kEverything}) {
          if (choose(view, needed) != victims_of<EvictTwin>(view, needed)) return "another choice than the twin's";
        }
      }
      return "";
    });
    if (!what.empty()) return what;
  }
  return "";
}

TEST(SavedPrefill, AgreesWithTheTwinOnEverySmallTrie) { EXPECT_EQ(explore(victims_of<EvictOrder>), ""); }

TEST(SavedPrefill, TheTwinCatchesMutants) {
  const auto seeing = [](std::function<void(EvictView&)> change) {
    return [change](EvictView view, ByteCount needed) {
      change(view);
      return victims_of<EvictOrder>(view, needed);
    };
  };
  const auto each = [](std::function<void(EvictCandidate&)> change) {
    return [change](EvictView& view) { std::ranges::for_each(view.candidates, change); };
  };
  const std::vector<Chooser> mutants{
      seeing([](EvictView& view) { view.shape.needs_points = false; }),
      seeing([](EvictView& view) { ++view.shape.window_tokens; }),
      seeing([](EvictView& view) { view.shape.window_tokens = std::min(view.shape.window_tokens, 1U); }),
      seeing([](EvictView& view) { view.copies.clear(); }),
      seeing(each([](EvictCandidate& candidate) { candidate.absent = false; })),
      seeing([](EvictView& view) { view.pinned.clear(); }),
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
}  // namespace kvkeep::policy::saved_twin
