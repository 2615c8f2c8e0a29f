// The order of leaving: who leaves when, then every small tree and random stories against the naive twin.

#include "policy/evict_order.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/test_seed.h"
#include "policy/evict_twin_fixture.h"
#include "policy/numbers_fixture.h"

namespace kvkeep::policy::evict_twin {
namespace {

[[maybe_unused]] const bool kSeeded = seed_rapidcheck();

using Chooser = std::function<std::vector<SegmentId>(const EvictView&, ByteCount)>;

const auto kNobodyStays = [](SegmentId) { return false; };

EvictCandidate rows(std::uint32_t id, std::uint32_t parent, std::int64_t used_ns) {
  EvictCandidate candidate;
  candidate.segment = SegmentId{id};
  candidate.parent = SegmentId{parent};
  candidate.bytes = ByteCount{10};
  candidate.tokens = 10;
  candidate.last_used_ns = used_ns;
  return candidate;
}

// Evicts the next victim and returns it.
std::uint32_t next_of(EvictOrder& order, ByteCount needed = ByteCount{1}) {
  const auto victims = order.choose({needed, 1}, kNobodyStays);
  if (victims.empty()) return 0;
  order.erase(victims.front());
  return victims.front().value();
}

// ---- who leaves ----

TEST(EvictOrder, TheLongestUnusedRowsLeaveFirst) {
  EvictOrder order;
  for (const std::uint32_t id : {3U, 1U, 2U, 4U}) order.put(rows(id, 0, 1000 - id));
  for (const std::uint32_t id : {4U, 3U, 2U, 1U, 0U}) EXPECT_EQ(next_of(order), id);
}

// The order tells apart candidates that were used before the first victim, though the clock did not move.
TEST(EvictOrder, AtTheFirstVictimTheTimesOfUseCount) {
  EvictOrder order;
  EvictCandidate wide = rows(1, 0, 2 * kHourNs);
  wide.bytes = ByteCount{11};  // saves a little less per byte
  order.put(wide);
  for (std::uint32_t id = 2; id <= 20; ++id) order.put(rows(id, 0, id < 10 ? kHourNs : 3 * kHourNs));
  EXPECT_EQ(next_of(order), 2U);
}

TEST(EvictOrder, AUseIsAsGoodAsNew) {
  EvictOrder order;
  for (std::uint32_t id = 1; id <= 3; ++id) order.put(rows(id, 0, id));
  EXPECT_EQ(next_of(order), 1U);
  order.put(rows(2, 0, 100));
  EXPECT_EQ(next_of(order), 3U);
}

// If two were used alike, the one that saves less per byte leaves first, but the other does not stay for ever.
TEST(EvictOrder, SavingMoreStaysLongerByTheSquareRoot) {
  EvictOrder order;
  const auto put = [&](std::uint32_t id, std::uint64_t bytes, std::int64_t used_ns) {
    EvictCandidate candidate = rows(id, 0, used_ns);
    candidate.bytes = ByteCount{bytes};
    order.put(candidate);
  };
  put(1, 100, 0);
  put(2, 1, 0);  // saves a hundred times as much, so that it stays ten times as long
  EXPECT_EQ(next_of(order), 1U);
  std::uint32_t turns = 0;
  for (std::uint32_t id = 3; id < 100; ++id, ++turns) {
    put(id, 100, id);
    if (next_of(order) == 2) break;
  }
  EXPECT_GE(turns, 8U);
  EXPECT_LE(turns, 10U);
}

TEST(EvictOrder, ACandidateThatSavesNothingLeavesFirst) {
  EvictOrder order;
  EvictCandidate useless = rows(1, 0, 100);
  useless.tokens = 0;
  order.put(rows(2, 0, 1));
  order.put(useless);
  EXPECT_EQ(next_of(order), 1U);
  EXPECT_EQ(next_of(order), 2U);
}

TEST(EvictOrder, CandidatesOfNoBytesAndNoTokensHaveAnOrder) {
  EvictOrder order;
  for (std::uint32_t id = 1; id <= 4; ++id) {
    EvictCandidate candidate = rows(id, 0, -std::int64_t{id});
    candidate.bytes = {};
    candidate.tokens = id % 2;
    order.put(candidate);
  }
  for (const std::uint32_t id : {4U, 2U, 3U, 1U, 0U}) EXPECT_EQ(next_of(order), id);
}

TEST(EvictOrder, AtMostSoManyLeaveAtOnce) {
  EvictOrder order;
  for (std::uint32_t id = 1; id <= 10; ++id) order.put(rows(id, id - 1, id));
  const auto victims = order.choose({ByteCount{1000}, 3}, kNobodyStays);
  EXPECT_EQ(victims, (std::vector{SegmentId{10}, SegmentId{9}, SegmentId{8}}));
}

TEST(EvictOrder, AParentOfAnotherTierDoesNotCount) {
  EvictOrder order;
  order.put(rows(2, 1, 0));
  EXPECT_EQ(next_of(order), 2U);
}

// Where points take too much.
TEST(EvictOrder, RowsStayWhereItIsPointsThatMustLeave) {
  EvictView view;
  view.shape.needs_points = view.points_only = true;
  for (std::uint32_t i = 1; i <= 20; ++i) {
    EvictCandidate segment;
    segment.segment = SegmentId{i};
    segment.bytes = ByteCount{100};
    segment.tokens = 10;
    segment.last_used_ns = i;
    EvictCandidate point;
    point.segment = SegmentId{100 + i};
    point.parent = SegmentId{i};
    point.bytes = ByteCount{10};
    point.begin = Position{10};
    point.kind = CandidateKind::kPoint;
    point.above = SegmentId{i};
    if (i % 5 == 0) view.pinned.insert(point.segment);
    view.candidates.push_back(segment);
    view.candidates.push_back(point);
  }
  for (std::uint64_t needed = 0; needed <= 300; ++needed) {
    const std::vector<SegmentId> victims = victims_of<EvictOrder>(view, ByteCount{needed});
    EXPECT_EQ(victims.size(), std::min<std::size_t>((needed + 9) / 10, 16)) << needed;
    for (const SegmentId victim : victims) EXPECT_GT(victim, SegmentId{100});
  }
}

// ---- every small tree ----

bool has_child(const EvictView& view, const std::set<SegmentId>& gone, SegmentId segment) {
  return std::ranges::any_of(
      view.candidates, [&](const auto& other) { return other.parent == segment && !gone.contains(other.segment); });
}

// The law, apart from the order of values: empty if the victims keep it.
std::string broken_law(const EvictView& view, ByteCount needed, const std::vector<SegmentId>& victims) {
  std::set<SegmentId> gone;
  ByteCount freed;
  for (const SegmentId victim : victims) {
    const auto found = std::ranges::find(view.candidates, victim, &EvictCandidate::segment);
    if (found == view.candidates.end() || !gone.insert(victim).second) return "no candidate, or twice";
    if (view.pinned.contains(victim)) return "a pinned one left";
    if (has_child(view, gone, victim)) return "a child lost its parent";
    if (freed >= needed) return "more than needed";
    freed += found->bytes;
  }
  if (freed >= needed) return "";
  for (const EvictCandidate& candidate : view.candidates) {
    if (!gone.contains(candidate.segment) && !view.pinned.contains(candidate.segment) &&
        !has_child(view, gone, candidate.segment)) {
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
      EvictView view{.candidates = {}, .now_ns = 10 * kHourNs, .kept_room = ByteCount{pinned % 4 * 10 + 5}};
      for (std::uint32_t i = 0; i < count; ++i) {
        const std::uint32_t mixed = (i * 7 + parents[i] * 3 + pinned) % 5;  // ages and sizes in no order of the tree
        EvictCandidate candidate = rows(i + 1, parents[i], std::int64_t{mixed} * kHourNs + i);
        candidate.tokens = mixed % 2 == 0 ? 100 : 7;
        candidate.begin = Position{i * 100};
        candidate.kept_until_ns = kept_until((i * 5 + parents[i] + pinned / 2) % 7, view.now_ns);
        if ((pinned >> i & 1U) != 0) view.pinned.insert(candidate.segment);
        view.candidates.push_back(candidate);
      }
      for (std::uint64_t needed = 0; needed <= count * 10 + 1; needed += 5) {
        const auto victims = choose(view, ByteCount{needed});
        if (auto broken = broken_law(view, ByteCount{needed}, victims); !broken.empty()) return broken;
        if (victims != victims_of<EvictTwin>(view, ByteCount{needed})) return "another choice than the twin's";
      }
    }
    std::uint32_t digit = 0;
    while (digit < count && ++parents[digit] > digit) parents[digit++] = 0;
    if (digit == count) return "";
  }
}

TEST(EvictOrder, AgreesWithTheTwinOnEverySmallTree) {
  for (std::uint32_t count = 0; count <= 5; ++count) EXPECT_EQ(explore(count, victims_of<EvictOrder>), "") << count;
}

// Points in one segment, each built on one before it or on none: the first saves least, and must not leave first.
TEST(EvictOrder, ABaseLeavesAfterAllThatIsBuiltOnIt) {
  for (std::uint32_t bases = 0; bases < 4 * 4 * 4; ++bases) {
    EvictView view{.candidates = {rows(1, 0, 0)}, .shape = {.needs_points = true}};
    for (std::uint32_t i = 0; i < 4; ++i) {
      const std::uint32_t chosen = i == 0 ? 0 : (bases >> 2 * (i - 1) & 3U);
      EvictCandidate point = rows(i + 2, 1, i * kHourNs);
      point.tokens = 0;
      point.begin = Position{20 * (i + 1)};
      point.kind = CandidateKind::kPoint;
      point.above = SegmentId{1};
      if (chosen < i) point.base = SegmentId{chosen + 2};
      view.candidates.push_back(point);
    }
    const std::vector<SegmentId> victims = victims_of<EvictOrder>(view, ByteCount{50});
    ASSERT_EQ(victims.size(), 5U) << bases;
    const auto place = [&](SegmentId id) { return std::ranges::find(victims, id) - victims.begin(); };
    for (const EvictCandidate& candidate : view.candidates) {
      if (candidate.base == kRootSegment) continue;
      EXPECT_LT(place(candidate.segment), place(candidate.base)) << bases;
    }
  }
}

TEST(EvictOrder, TheTwinCatchesMutants) {
  const Chooser ignores_pins = [](EvictView view, ByteCount needed) {
    view.pinned.clear();
    return victims_of<EvictOrder>(view, needed);
  };
  const Chooser ignores_children = [](EvictView view, ByteCount needed) {
    for (auto& candidate : view.candidates) candidate.parent = kRootSegment;
    return victims_of<EvictOrder>(view, needed);
  };
  const Chooser parents_first = [](const EvictView& view, ByteCount needed) {
    auto victims = victims_of<EvictOrder>(view, needed);
    std::ranges::reverse(victims);
    return victims;
  };
  const Chooser takes_one_more = [](const EvictView& view, ByteCount needed) {
    return victims_of<EvictOrder>(view, needed + ByteCount{10});
  };
  const Chooser takes_one_less = [](const EvictView& view, ByteCount needed) {
    auto victims = victims_of<EvictOrder>(view, needed);
    if (!victims.empty()) victims.pop_back();
    return victims;
  };
  const Chooser newest_first = [](EvictView view, ByteCount needed) {
    for (auto& candidate : view.candidates) candidate.last_used_ns = -candidate.last_used_ns;
    return victims_of<EvictOrder>(view, needed);
  };
  const Chooser keeps_nothing = [](EvictView view, ByteCount needed) {
    view.kept_room = {};
    return victims_of<EvictOrder>(view, needed);
  };
  const Chooser keeps_without_limit = [](EvictView view, ByteCount needed) {
    view.kept_room = mebibytes(1);
    return victims_of<EvictOrder>(view, needed);
  };
  const Chooser keeps_for_ever = [](EvictView view, ByteCount needed) {
    for (auto& candidate : view.candidates) {
      if (candidate.kept_until_ns > 0) candidate.kept_until_ns += 1;
    }
    return victims_of<EvictOrder>(view, needed);
  };
  const Chooser believes_any_time = [](EvictView view, ByteCount needed) {
    for (auto& candidate : view.candidates) {
      candidate.kept_until_ns = std::min(candidate.kept_until_ns, view.now_ns + kLongestKeepNs);
    }
    return victims_of<EvictOrder>(view, needed);
  };
  for (const Chooser& mutant : {ignores_pins, ignores_children, parents_first, takes_one_more, takes_one_less,
                                newest_first, keeps_nothing, keeps_without_limit, keeps_for_ever, believes_any_time}) {
    EXPECT_NE(explore(4, mutant), "");
  }
}

TEST(EvictOrder, KeepsTheLawOnRandomForests) {
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
      if (*rc::gen::inRange(0, 6) == 0) view.pinned.insert(candidate.segment);
      view.candidates.push_back(candidate);
    }
    const ByteCount needed{*rc::gen::inRange<std::uint64_t>(0, 2000)};
    RC_ASSERT(broken_law(view, needed, victims_of<EvictOrder>(view, needed)) == "");
  }));
}

// ---- stories ----

// Candidates that change at random, and an order that learns of each change.
class Story {
 public:
  explicit Story(std::uint64_t seed) : random_(seed) {}

  void step() {
    now_ns_ += static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(kHourNs));
    const std::uint64_t what = random_() % 10;
    if (here_.empty() || what < 4) return add();
    const SegmentId some = any();
    if (what == 4) return leave(some);
    if (what == 5) {
      pinned_.contains(some) ? (void)pinned_.erase(some) : (void)pinned_.insert(some);
      return;
    }
    EvictCandidate& candidate = here_.at(some);
    if (what == 6) candidate.bytes = ByteCount{random_() % 3 * 100};
    if (what == 7) candidate.kept_until_ns = now_ns_ + static_cast<std::int64_t>(random_() % 30) * kHourNs;
    if (what >= 8) candidate.last_used_ns = now_ns_;
    put(candidate);
  }

  void check() {
    const EvictOrder::Request request{ByteCount{random_() % 3000}, SIZE_MAX, now_ns_, ByteCount{random_() % 2000}};
    const auto stays = [&](SegmentId id) { return pinned_.contains(id); };
    const auto want = twin_.choose(request, stays);
    const auto got = order_.choose(request, stays);
    ASSERT_EQ(got, want);
    // Some of them go.
    for (std::size_t i = 0; i < random_() % (want.size() + 1); ++i) leave(want[i]);
    ASSERT_EQ(order_.size(), here_.size());
  }

 private:
  SegmentId any() { return std::next(here_.begin(), static_cast<std::ptrdiff_t>(random_() % here_.size()))->first; }
  void add() {
    EvictCandidate added;
    added.segment = SegmentId{static_cast<std::uint32_t>(1 + random_() % 60)};
    if (here_.contains(added.segment)) return;
    // A parent has a smaller number, so that nothing hangs below itself.
    const auto before = static_cast<std::uint32_t>(random_() % added.segment.value());
    if (here_.contains(SegmentId{before})) added.parent = SegmentId{before};
    const auto other = static_cast<std::uint32_t>(random_() % added.segment.value());
    if (random_() % 5 == 0 && here_.contains(SegmentId{other})) added.base = SegmentId{other};
    if (added.base == added.parent) added.base = kRootSegment;
    added.bytes = ByteCount{100 + random_() % 200};
    added.tokens = static_cast<std::uint32_t>(random_() % 50);
    added.begin = Position{added.segment.value() * 50};
    added.last_used_ns = now_ns_;
    here_[added.segment] = added;
    put(added);
  }
  void put(const EvictCandidate& candidate) {
    order_.put(candidate);
    twin_.put(candidate);
  }
  // Drops a candidate below which nothing hangs.
  void leave(SegmentId segment) {
    const auto hangs = [&](const auto& other) {
      return other.second.parent == segment || other.second.base == segment;
    };
    if (!here_.contains(segment) || std::ranges::any_of(here_, hangs)) return;
    here_.erase(segment);
    pinned_.erase(segment);
    order_.erase(segment);
    twin_.erase(segment);
  }

  std::mt19937_64 random_;
  EvictOrder order_;
  EvictTwin twin_;
  std::map<SegmentId, EvictCandidate> here_;
  std::set<SegmentId> pinned_;
  std::int64_t now_ns_ = 1'700'000'000'000'000'000;
};

TEST(EvictOrder, IsThatOfTheNaiveTwin) {
  for (std::uint64_t number = 0; number < 40; ++number) {
    SCOPED_TRACE("story " + std::to_string(number));
    Story story(test_seed() + number);
    for (int i = 0; i < 400; ++i) {
      story.step();
      ASSERT_NO_FATAL_FAILURE(story.check());
    }
  }
}

// ---- stories with points or windows ----

class PointsStory {
 public:
  PointsStory(std::uint64_t seed, std::uint32_t window_tokens)
      : random_(seed), window_tokens_(window_tokens), order_({true, window_tokens}), twin_({true, window_tokens}) {}

  void step() {
    now_ns_ += static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(kHourNs)) + 1;
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
    if (what == 8) candidate.absent ^= true;
    if (what == 9) candidate.outlook = static_cast<Outlook>(below(3));
    if (what >= 10) candidate.last_used_ns = now_ns_;
    put(candidate);
  }

  void check() {
    const EvictOrder::Request request{ByteCount{1}, SIZE_MAX, now_ns_, ByteCount{below(2000)}, below(4) == 0};
    const auto stays = [&](SegmentId id) { return pinned_.contains(id); };
    const auto want = twin_.choose(request, stays);
    const auto got = order_.choose(request, stays);
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
    known_[added.segment] = added;
    put(added);
  }
  void put(const EvictCandidate& candidate) {
    order_.put(candidate);
    twin_.put(candidate);
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
    twin_.erase(segment);
  }

  std::mt19937_64 random_;
  const std::uint32_t window_tokens_;
  EvictOrder order_;
  EvictTwin twin_;
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
    EvictCandidate own;
    own.segment = SegmentId{id};
    own.parent = own.above = SegmentId{static_cast<std::uint32_t>(random() % id)};
    own.tokens = 10;
    own.bytes = ByteCount{100};
    own.last_used_ns = static_cast<std::int64_t>(random() % 1000);
    if (own.above != kRootSegment) own.begin = segments[own.above.value() - 1].begin + 1 + random() % 10;
    segments.push_back(own);
    if (random() % 2 == 0) continue;
    EvictCandidate leaf = own;
    leaf.segment = SegmentId{10 + id};
    leaf.parent = leaf.above = own.segment;
    leaf.kind = window_tokens > 0 ? CandidateKind::kWindow : CandidateKind::kPoint;
    leaf.tokens = window_tokens > 0 ? 5 : 0;
    leaf.begin = own.begin + (window_tokens > 0 ? random() % 5 : 1 + random() % 10);
    leaves.push_back(leaf);
  }
  segments.insert(segments.end(), leaves.begin(), leaves.end());
  return segments;
}

// Candidates that continue a segment may be put before it.
TEST(EvictOrder, WithPointsTheOrderOfPutsDoesNotMatter) {
  std::mt19937_64 random(test_seed());
  for (int i = 0; i < 3000; ++i) {
    const std::uint32_t window_tokens = i % 2 == 0 ? 7 : 0;
    std::vector<EvictCandidate> all = random_trie(random, window_tokens);
    EvictView view{.candidates = all, .shape = {true, window_tokens}};
    const std::vector<SegmentId> want = victims_of<EvictTwin>(view, ByteCount{UINT64_MAX});
    EvictOrder order(view.shape);
    std::ranges::shuffle(all, random);
    for (const EvictCandidate& candidate : all) order.put(candidate);
    std::vector<SegmentId> got;
    while (const std::uint32_t next = next_of(order)) got.push_back(SegmentId{next});
    ASSERT_EQ(got, want) << i;
  }
}

// ---- who may leave whatever the order ----

constexpr std::int64_t kNowNs = 1000 * kHourNs;

TEST(Expire, EveryHourOfUseAndKeeping) {
  for (std::int64_t used = -50; used <= 50; ++used) {
    for (std::int64_t kept = -50; kept <= 50; ++kept) {
      const Lifetime known{kNowNs + used * kHourNs, kNowNs + kept * kHourNs};
      const bool asked_for = kept > 0 && kept <= 24;  // no request can ask for more than a day
      EXPECT_EQ(expired(known, kNowNs, 10 * kHourNs), used <= -10 && !asked_for) << used << " " << kept;
      EXPECT_FALSE(expired(known, kNowNs, 0)) << "no time to live";
    }
  }
}

TEST(Expire, NoRequestAskedForItToStay) { EXPECT_TRUE(expired({kNowNs - kHourNs, 0}, kNowNs, kHourNs)); }

}  // namespace
}  // namespace kvkeep::policy::evict_twin
