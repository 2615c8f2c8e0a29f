// Victims against a naive twin over every tree of up to five segments and every set of pinned ones.

#include "policy/evict.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/test_seed.h"
#include "policy/numbers_fixture.h"

namespace kvkeep::policy::evict_twin {
namespace {

[[maybe_unused]] const bool kSeeded = seed_rapidcheck();

using Chooser = std::function<std::vector<SegmentId>(const EvictView&, ByteCount)>;

bool has_child(const EvictView& view, const std::set<SegmentId>& gone, SegmentId segment) {
  return std::ranges::any_of(
      view.candidates, [&](const auto& other) { return other.parent == segment && !gone.contains(other.segment); });
}

// Of those that somebody asked to keep, the longest first and of a path its beginning, as many as there is room for.
std::set<SegmentId> kept_in(const EvictView& view) {
  std::set<SegmentId> kept;
  for (ByteCount total;;) {
    const EvictCandidate* next = nullptr;
    for (const EvictCandidate& candidate : view.candidates) {
      const bool counts = candidate.kept_until_ns > view.now_ns &&
                          candidate.kept_until_ns <= view.now_ns + kLongestKeepNs && !kept.contains(candidate.segment);
      if (!counts) continue;
      const bool longer = next == nullptr || candidate.kept_until_ns > next->kept_until_ns;
      const bool earlier =
          next != nullptr && candidate.kept_until_ns == next->kept_until_ns && candidate.begin < next->begin;
      if (longer || earlier) next = &candidate;
    }
    if (next == nullptr || total + next->bytes > view.kept_room) return kept;
    total += next->bytes;
    kept.insert(next->segment);
  }
}

// Again and again the least valuable of those that may leave, looked for in the whole view.
std::vector<SegmentId> naive(const EvictView& view, ByteCount needed) {
  std::vector<SegmentId> victims;
  std::set<SegmentId> gone;
  const std::set<SegmentId> kept = kept_in(view);
  for (ByteCount freed; freed < needed;) {
    std::optional<EvictCandidate> least;
    for (const EvictCandidate& candidate : view.candidates) {
      if (candidate.pinned || gone.contains(candidate.segment) || has_child(view, gone, candidate.segment)) continue;
      const auto worth = [&](const EvictCandidate& other) {
        return std::pair(kept.contains(other.segment), keep_value(other, view.now_ns));
      };
      if (least && worth(*least) <= worth(candidate)) continue;
      least = candidate;
    }
    if (!least) break;
    gone.insert(least->segment);
    victims.push_back(least->segment);
    freed += least->bytes;
  }
  return victims;
}

// The law, apart from the order of values: empty if the victims keep it.
std::string broken_law(const EvictView& view, ByteCount needed, const std::vector<SegmentId>& victims) {
  std::set<SegmentId> gone;
  ByteCount freed;
  for (const SegmentId victim : victims) {
    const auto found = std::ranges::find(view.candidates, victim, &EvictCandidate::segment);
    if (found == view.candidates.end() || !gone.insert(victim).second) return "no candidate, or twice";
    if (found->pinned) return "a pinned one left";
    if (has_child(view, gone, victim)) return "a child lost its parent";
    if (freed >= needed) return "more than needed";
    freed += found->bytes;
  }
  if (freed >= needed) return "";
  for (const EvictCandidate& candidate : view.candidates) {
    if (!gone.contains(candidate.segment) && !candidate.pinned && !has_child(view, gone, candidate.segment)) {
      return "stopped too early";
    }
  }
  return "";
}

// Until when the tree's segment is kept: not, too long to be true, until just now, or one of two times to come.
std::int64_t kept_until(std::uint32_t mixed, std::int64_t now_ns) {
  if (mixed == 0) return 0;
  if (mixed == 1) return now_ns + kLongestKeepNs + 1;
  return mixed == 2 ? now_ns : now_ns + std::int64_t{mixed} / 4 * kHourNs + kLongestKeepNs / 2;
}

// Every tree of `count` segments (parents have smaller numbers), every pinned set, every need; some are kept.
std::string explore(std::uint32_t count, const Chooser& choose) {
  std::vector<std::uint32_t> parents(count, 0);
  while (true) {
    for (std::uint32_t pinned = 0; pinned < (1U << count); ++pinned) {
      EvictView view{{}, 10 * kHourNs};
      view.kept_room = ByteCount{pinned % 4 * 10 + 5};
      for (std::uint32_t i = 0; i < count; ++i) {
        const std::uint32_t mixed = (i * 7 + parents[i] * 3 + pinned) % 5;  // values in no order of the tree
        view.candidates.push_back({SegmentId{i + 1}, SegmentId{parents[i]}, ByteCount{10}, 100, Position{i * 100},
                                   std::int64_t{mixed} * kHourNs + i, mixed % 2, (pinned >> i & 1U) != 0,
                                   kept_until((i * 5 + parents[i] + pinned / 2) % 7, view.now_ns)});
      }
      for (std::uint64_t needed = 0; needed <= count * 10 + 1; needed += 5) {
        const auto victims = choose(view, ByteCount{needed});
        if (auto broken = broken_law(view, ByteCount{needed}, victims); !broken.empty()) return broken;
        if (victims != naive(view, ByteCount{needed})) return "another choice than the twin's";
      }
    }
    std::uint32_t digit = 0;
    while (digit < count && ++parents[digit] > digit) parents[digit++] = 0;
    if (digit == count) return "";
  }
}

TEST(ChooseVictims, AgreesWithTheTwinOnEverySmallTree) {
  for (std::uint32_t count = 0; count <= 5; ++count) EXPECT_EQ(explore(count, choose_victims), "") << count;
}

// Points in one segment, each built on one before it or on none: the first is worth least, and must not leave first.
TEST(ChooseVictims, ABaseLeavesAfterAllThatIsBuiltOnIt) {
  for (std::uint32_t bases = 0; bases < 4 * 4 * 4; ++bases) {
    EvictView view{{}, 10 * kHourNs, true};
    view.candidates.push_back({SegmentId{1}, kRootSegment, ByteCount{10}, 100, Position{0}, 0, 0});
    for (std::uint32_t i = 0; i < 4; ++i) {
      const std::uint32_t chosen = i == 0 ? 0 : (bases >> 2 * (i - 1) & 3U);
      EvictCandidate point{SegmentId{i + 2}, SegmentId{1}, ByteCount{10}, 0, Position{20 * (i + 1)}, i * kHourNs, 0};
      point.kind = CandidateKind::kPoint;
      point.above = SegmentId{1};
      if (chosen < i) point.base = SegmentId{chosen + 2};
      view.candidates.push_back(point);
    }
    const std::vector<SegmentId> victims = choose_victims(view, ByteCount{50});
    ASSERT_EQ(victims.size(), 5U) << bases;
    const auto place = [&](SegmentId id) { return std::ranges::find(victims, id) - victims.begin(); };
    for (const EvictCandidate& candidate : view.candidates) {
      if (candidate.base == kRootSegment) continue;
      EXPECT_LT(place(candidate.segment), place(candidate.base)) << bases;
    }
  }
}

TEST(ChooseVictims, TheTwinCatchesMutants) {
  const Chooser ignores_pins = [](EvictView view, ByteCount needed) {
    for (auto& candidate : view.candidates) candidate.pinned = false;
    return choose_victims(view, needed);
  };
  const Chooser ignores_children = [](EvictView view, ByteCount needed) {
    for (auto& candidate : view.candidates) candidate.parent = kRootSegment;
    return choose_victims(view, needed);
  };
  const Chooser parents_first = [](const EvictView& view, ByteCount needed) {
    auto victims = choose_victims(view, needed);
    std::ranges::reverse(victims);
    return victims;
  };
  const Chooser takes_one_more = [](const EvictView& view, ByteCount needed) {
    return choose_victims(view, needed + ByteCount{10});
  };
  const Chooser takes_one_less = [](const EvictView& view, ByteCount needed) {
    auto victims = choose_victims(view, needed);
    if (!victims.empty()) victims.pop_back();
    return victims;
  };
  const Chooser newest_first = [](EvictView view, ByteCount needed) {
    for (auto& candidate : view.candidates) candidate.last_used_ns = -candidate.last_used_ns;
    return choose_victims(view, needed);
  };
  const Chooser keeps_nothing = [](EvictView view, ByteCount needed) {
    view.kept_room = {};
    return choose_victims(view, needed);
  };
  const Chooser keeps_without_limit = [](EvictView view, ByteCount needed) {
    view.kept_room = mebibytes(1);
    return choose_victims(view, needed);
  };
  const Chooser keeps_for_ever = [](EvictView view, ByteCount needed) {
    for (auto& candidate : view.candidates) {
      if (candidate.kept_until_ns > 0) candidate.kept_until_ns += 1;
    }
    return choose_victims(view, needed);
  };
  const Chooser believes_any_time = [](EvictView view, ByteCount needed) {
    for (auto& candidate : view.candidates) {
      candidate.kept_until_ns = std::min(candidate.kept_until_ns, view.now_ns + kLongestKeepNs);
    }
    return choose_victims(view, needed);
  };
  for (const Chooser& mutant : {ignores_pins, ignores_children, parents_first, takes_one_more, takes_one_less,
                                newest_first, keeps_nothing, keeps_without_limit, keeps_for_ever, believes_any_time}) {
    EXPECT_NE(explore(4, mutant), "");
  }
}

TEST(ChooseVictims, KeepsTheLawOnRandomForests) {
  EXPECT_TRUE(rc::check("children before parents, pinned stay, no more than needed", [] {
    EvictView view;
    view.now_ns = *rc::gen::inRange<std::int64_t>(0, 100 * kHourNs);
    const auto count = *rc::gen::inRange<std::uint32_t>(0, 60);
    for (std::uint32_t i = 0; i < count; ++i) {
      EvictCandidate candidate;
      candidate.segment = SegmentId{i * 3 + 1};
      candidate.bytes = ByteCount{*rc::gen::inRange<std::uint64_t>(0, 50)};
      if (i > 0) candidate.parent = SegmentId{*rc::gen::inRange<std::uint32_t>(0, i) * 3 + 1};
      candidate.tokens = *rc::gen::inRange<std::uint32_t>(0, 2048);
      candidate.last_used_ns = *rc::gen::inRange<std::int64_t>(0, 200 * kHourNs);
      candidate.hits = *rc::gen::inRange<std::uint32_t>(0, 9);
      candidate.pinned = *rc::gen::inRange(0, 6) == 0;
      view.candidates.push_back(candidate);
    }
    const ByteCount needed{*rc::gen::inRange<std::uint64_t>(0, 2000)};
    RC_ASSERT(broken_law(view, needed, choose_victims(view, needed)) == "");
  }));
}

TEST(ChooseVictims, AParentOfAnotherTierDoesNotCount) {
  const EvictView view{{{SegmentId{2}, SegmentId{1}, ByteCount{10}, 10, Position{5}, 0, 0, false}}, 0};
  EXPECT_EQ(choose_victims(view, ByteCount{1}), std::vector{SegmentId{2}});
}

TEST(KeepValue, GrowsWithUseAndDepthAndFallsWithAgeAndBytes) {
  const EvictCandidate base{SegmentId{1}, kRootSegment, ByteCount{1000}, 100, Position{0}, 5 * kHourNs, 1, false};
  const double value = keep_value(base, 6 * kHourNs);
  const auto changed = [&](auto change) {
    EvictCandidate other = base;
    change(other);
    return keep_value(other, 6 * kHourNs);
  };
  EXPECT_GT(changed([](auto& other) { other.hits = 2; }), value);
  EXPECT_GT(changed([](auto& other) { other.begin = Position{5000}; }), value);
  EXPECT_GT(changed([](auto& other) { other.tokens = 200; }), value);
  EXPECT_LT(changed([](auto& other) { other.last_used_ns = 4 * kHourNs; }), value);
  EXPECT_LT(changed([](auto& other) { other.bytes = ByteCount{2000}; }), value);
  EXPECT_DOUBLE_EQ(keep_value(base, 11 * kHourNs), keep_value(base, 5 * kHourNs) / 2);
  // A clock that went back, and no bytes: still a number.
  EXPECT_DOUBLE_EQ(keep_value(base, 0), keep_value(base, 5 * kHourNs));
  EXPECT_TRUE(std::isfinite(changed([](auto& other) { other.bytes = ByteCount{0}; })));
}

TEST(KeepValue, MonthsLaterTheOldestStillLeavesFirst) {
  EvictView view{{{SegmentId{1}, kRootSegment, ByteCount{1}, 1, Position{0}, 2, 0, false},
                  {SegmentId{2}, kRootSegment, ByteCount{1}, 1, Position{0}, 1, 0, false}},
                 100'000 * kHourNs};
  EXPECT_EQ(choose_victims(view, ByteCount{1}), std::vector{SegmentId{2}});
}

// Where points take too much.
TEST(EvictPoints, RowsStayWhereItIsPointsThatMustLeave) {
  EvictView view;
  view.needs_points = view.points_only = true;
  for (std::uint32_t i = 1; i <= 20; ++i) {
    EvictCandidate rows;
    rows.segment = SegmentId{i};
    rows.bytes = ByteCount{100};
    rows.tokens = 10;
    rows.last_used_ns = i;
    EvictCandidate point;
    point.segment = SegmentId{100 + i};
    point.parent = SegmentId{i};
    point.bytes = ByteCount{10};
    point.begin = Position{10};
    point.kind = CandidateKind::kPoint;
    point.above = SegmentId{i};
    point.pinned = i % 5 == 0;
    view.candidates.push_back(rows);
    view.candidates.push_back(point);
  }
  for (std::uint64_t needed = 0; needed <= 300; ++needed) {
    const std::vector<SegmentId> victims = choose_victims(view, ByteCount{needed});
    EXPECT_EQ(victims.size(), std::min<std::size_t>((needed + 9) / 10, 16)) << needed;
    for (const SegmentId victim : victims) EXPECT_GT(victim, SegmentId{100});
  }
}

}  // namespace
}  // namespace kvkeep::policy::evict_twin
