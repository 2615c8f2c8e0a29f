// The kept order against choose_victims(), which works everything out anew from a view.

#include "policy/evict_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "base/test_seed.h"
#include "policy/numbers_fixture.h"

namespace kvkeep::policy {
namespace {

const auto kNobodyStays = [](SegmentId) { return false; };

// Candidates that change at random, and an order that is told.
class Story {
 public:
  Story(std::uint64_t seed, const Score& score) : random_(seed), order_(score), score_(score) {}

  void step() {
    now_ns_ += static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(kHourNs));
    if (random_() % 50 == 0) order_.set_half_life(half_life_for(static_cast<std::int64_t>(random_() % 30) * kHourNs));
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
    if (what >= 8) {
      candidate.last_used_ns = now_ns_;
      ++candidate.hits;
    }
    order_.put(candidate);
  }

  // As the naive twin has it. What nearly ties may leave in either order.
  void check() {
    EvictView view{{}, now_ns_};
    view.kept_room = ByteCount{random_() % 2000};
    view.score = &score_;
    view.half_life_ns = order_.half_life_ns();
    for (const auto& [id, candidate] : here_) view.candidates.push_back(candidate);
    for (EvictCandidate& candidate : view.candidates) candidate.pinned = pinned_.contains(candidate.segment);
    const ByteCount needed{random_() % 3000};
    const std::vector<SegmentId> want = choose_victims(view, needed);
    const auto got =
        order_.choose({needed, SIZE_MAX, now_ns_, view.kept_room}, [&](SegmentId id) { return pinned_.contains(id); });
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
    order_.put(added);
  }
  // Of what nothing hangs below.
  void leave(SegmentId segment) {
    const auto hangs = [&](const auto& other) {
      return other.second.parent == segment || other.second.base == segment;
    };
    if (!here_.contains(segment) || std::ranges::any_of(here_, hangs)) return;
    here_.erase(segment);
    pinned_.erase(segment);
    order_.erase(segment);
  }

  std::mt19937_64 random_;
  EvictOrder order_;
  const Score& score_;
  std::map<SegmentId, EvictCandidate> here_;
  std::set<SegmentId> pinned_;
  std::int64_t now_ns_ = 1'700'000'000'000'000'000;
};

TEST(EvictOrder, IsThatOfTheNaiveTwin) {
  for (std::uint64_t number = 0; number < 40; ++number) {
    SCOPED_TRACE("story " + std::to_string(number));
    Story story(test_seed() + number, number % 3 == 0 ? kByRecency : kByValue);
    for (int i = 0; i < 400; ++i) {
      story.step();
      ASSERT_NO_FATAL_FAILURE(story.check());
    }
  }
}

EvictCandidate rows(std::uint32_t id, std::uint32_t parent, std::int64_t used_ns, std::uint32_t hits = 0) {
  EvictCandidate candidate;
  candidate.segment = SegmentId{id};
  candidate.parent = SegmentId{parent};
  candidate.bytes = ByteCount{10};
  candidate.tokens = 10;
  candidate.last_used_ns = used_ns;
  candidate.hits = hits;
  return candidate;
}

TEST(EvictOrder, TheScoreDecides) {
  for (const Score* score : {&kByValue, &kByRecency}) {
    EvictOrder order(*score);
    order.put(rows(1, 0, 1 * kHourNs, 9));
    order.put(rows(2, 0, 2 * kHourNs, 0));
    const auto victims = order.choose({ByteCount{1}}, kNobodyStays);
    EXPECT_EQ(victims, std::vector{SegmentId{score == &kByValue ? 2U : 1U}});
  }
}

TEST(EvictOrder, AtMostSoManyLeaveAtOnce) {
  EvictOrder order;
  for (std::uint32_t id = 1; id <= 10; ++id) order.put(rows(id, id - 1, id));
  const auto victims = order.choose({ByteCount{1000}, 3}, kNobodyStays);
  EXPECT_EQ(victims, (std::vector{SegmentId{10}, SegmentId{9}, SegmentId{8}}));
}

TEST(Score, AHalfLifeIsAQuarterOfWhatATierTakesToFill) {
  EXPECT_EQ(half_life_for(4 * kHourNs), kHourNs);
  EXPECT_EQ(half_life_for(0), kShortestHalfLifeNs);
  EXPECT_EQ(half_life_for(1000 * kHourNs), kLongestHalfLifeNs);
}

TEST(EvictOrder, AShorterHalfLifeForgetsWhatWasUsedOften) {
  EvictOrder order;
  order.put(rows(1, 0, 1 * kHourNs, 9));
  order.put(rows(2, 0, 2 * kHourNs, 0));
  order.set_half_life(kHourNs / 10);
  EXPECT_EQ(order.choose({ByteCount{1}}, kNobodyStays), std::vector{SegmentId{1}});
  order.set_half_life(kLongestHalfLifeNs);
  EXPECT_EQ(order.choose({ByteCount{1}}, kNobodyStays), std::vector{SegmentId{2}});
}

TEST(Score, RanksAsItValues) {
  std::mt19937_64 random(test_seed());
  const auto some = [&] {
    EvictCandidate candidate = rows(1, 0, static_cast<std::int64_t>(random() % 1000) * kHourNs / 10);
    candidate.hits = static_cast<std::uint32_t>(random() % 20);
    candidate.tokens = static_cast<std::uint32_t>(random() % 2000);
    candidate.bytes = ByteCount{random() % 5000};
    candidate.begin = Position{static_cast<std::uint32_t>(random() % 100'000)};
    return candidate;
  };
  for (int i = 0; i < 10'000; ++i) {
    const EvictCandidate a = some();
    const EvictCandidate b = some();
    for (const Score* score : {&kByValue, &kByRecency}) {
      for (const std::int64_t now_ns : {100 * kHourNs, 1000 * kHourNs}) {
        const std::int64_t half_life_ns = half_life_for(static_cast<std::int64_t>(random() % 40) * kHourNs);
        const auto value = [&](const EvictCandidate& of) { return score->value(of, now_ns, half_life_ns); };
        const auto rank = [&](const EvictCandidate& of) {
          return Score::rank(std::log2(score->worth(of)), of.last_used_ns, half_life_ns);
        };
        const bool a_first = rank(a) < rank(b);
        EXPECT_LE(value(a_first ? a : b), value(a_first ? b : a) * (1 + 1e-6));
      }
    }
  }
}

}  // namespace
}  // namespace kvkeep::policy
