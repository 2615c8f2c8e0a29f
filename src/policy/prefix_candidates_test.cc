// Each candidate of a plan is described: a table of situations, and for any view no contradiction to the plan.

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <sstream>

#include "base/test_seed.h"
#include "policy/cached_prefix.h"
#include "policy/plan_fixture.h"

namespace kvkeep::policy::candidate_views {
namespace {

using Kind = Candidate::Kind;

Resident resident(std::int32_t seq, std::size_t length, std::size_t common, std::size_t complete_from = 0,
                  bool idle = true) {
  return {SeqId{seq}, at(length), at(common), idle, true, static_cast<std::uint32_t>(length), seq, at(complete_from)};
}

PlanView view_of(std::vector<Resident> residents, std::vector<CachedStep> cached,
                 std::optional<std::vector<Restorable>> restorable = std::nullopt) {
  return roomy_view(101, std::move(residents), std::move(cached), std::move(restorable));
}

// "memory 0..50 to 50: shorter; rows ..."
std::string told(const PlanView& view) {
  static constexpr const char* kKinds[] = {"memory", "rows", "point"};
  static constexpr const char* kTiers[] = {" ", " on disk ", " shared "};
  std::ostringstream text;
  for (const Candidate& one : candidates(view)) {
    text << (text.tellp() > 0 ? "; " : "") << kKinds[static_cast<int>(one.kind)] << kTiers[static_cast<int>(one.tier)]
         << one.run.begin.value() << ".." << one.run.end.value() << " to " << one.reach.value() << ": "
         << to_string(one.verdict);
  }
  return text.str();
}

Rates slow_disk() { return {.prefill_tokens_per_s = 1e6, .ram_restore_bytes_per_s = 1e9, .disk_read_bytes_per_s = 1}; }

TEST(PrefixCandidates, AnEmptyViewHasNoCandidates) { EXPECT_EQ(told(view_of({}, {})), ""); }

TEST(PrefixCandidates, ResidentsNextToEachOther) {
  EXPECT_EQ(told(view_of({resident(0, 80, 60), resident(1, 90, 70), resident(2, 90, 70), resident(3, 50, 0)}, {})),
            "memory 0..60 to 60: shorter; memory 0..70 to 70: as-far; memory 0..70 to 70: taken; "
            "memory 0..0 to 0: nothing-shared");
}

TEST(PrefixCandidates, RowsGoOnWhereMemoryEnds) {
  EXPECT_EQ(told(view_of({resident(0, 40, 40)}, {step(0, 30), step(30, 60), step(60, 90, kDisk)})),
            "memory 0..40 to 90: taken; rows 0..60 to 60: taken; rows on disk 60..90 to 90: taken");
  EXPECT_EQ(told(view_of({resident(0, 95, 95)}, {step(0, 60), step(60, 90, kDisk)})),
            "memory 0..95 to 95: taken; rows 0..60 to 60: in-memory; rows on disk 60..90 to 90: in-memory");
  EXPECT_EQ(told(view_of({resident(0, 60, 60)}, {step(0, 60)})),
            "memory 0..60 to 60: taken; rows 0..60 to 60: in-memory");
}

TEST(PrefixCandidates, ASlowDiskIsLeftAside) {
  PlanView view = view_of({}, {step(0, 60), step(60, 90, kDisk)});
  view.restore = RestoreMode::kAuto;
  view.rates = slow_disk();
  EXPECT_EQ(told(view), "rows 0..60 to 60: taken; rows on disk 60..90 to 90: too-slow");
}

TEST(PrefixCandidates, ThePromptsLastTokenIsDecodedWhateverIsKnownOfIt) {
  EXPECT_EQ(told(view_of({}, {step(0, 100, kDisk), step(100, 101)})),
            "rows on disk 0..100 to 100: taken; rows 100..101 to 100: last-token");
  EXPECT_EQ(told(view_of({}, {step(0, 101)}, {{point(100), point(101)}})),
            "rows 0..101 to 100: taken; point 100..100 to 100: taken; point 101..101 to 0: last-token");
}

TEST(PrefixCandidates, MemoryThatCannotBeCutNeedsAPoint) {
  EXPECT_EQ(told(view_of({resident(0, 80, 60, 80)}, {step(0, 50)}, std::vector<Restorable>{})),
            "memory 0..60 to 0: cannot-stand; rows 0..50 to 0: no-point");
  EXPECT_EQ(told(view_of({resident(0, 80, 60, 80)}, {step(0, 50)}, {{point(20), point(55)}})),
            "memory 0..60 to 55: taken; rows 0..50 to 0: in-memory; point 20..20 to 20: in-memory; "
            "point 55..55 to 55: taken");
}

TEST(PrefixCandidates, PointsNextToEachOther) {
  EXPECT_EQ(told(view_of({}, {step(0, 70)}, {{point(20), point(60), point(80)}})),
            "rows 0..70 to 60: taken; point 20..20 to 20: shorter; point 60..60 to 60: taken; "
            "point 80..80 to 0: no-rows");
  PlanView view = view_of({}, {step(0, 70)}, {{point(20), point(60, kDisk)}});
  view.restore = RestoreMode::kAuto;
  view.rates = slow_disk();
  EXPECT_EQ(told(view), "rows 0..70 to 20: taken; point 20..20 to 20: taken; point on disk 60..60 to 60: too-slow");
}

// ---- any view ----

PlanView random_view(std::mt19937& random) {
  const auto below = [&](std::size_t limit) { return static_cast<std::size_t>(random() % limit); };
  const auto any_tier = [&] { return static_cast<CacheTier>(below(kCacheTiers)); };
  std::vector<Resident> residents;
  for (std::size_t i = below(4); i > 0; --i) {
    const std::size_t length = 1 + below(120);
    residents.push_back(resident(static_cast<std::int32_t>(i), length, below(std::min<std::size_t>(length, 101) + 1),
                                 below(length + 1), below(3) > 0));
  }
  std::vector<CachedStep> cached;
  for (std::size_t begin = 0; below(4) > 0 && begin < 100;) {
    const std::size_t end = begin + 1 + below(101 - begin);
    cached.push_back(step(begin, end, any_tier()));
    begin = end;
  }
  std::vector<Restorable> points;
  for (std::size_t where = 1 + below(40); where < 101; where += 1 + below(40))
    points.push_back(point(where, any_tier()));
  PlanView view = below(2) > 0 ? view_of(residents, cached) : view_of(residents, cached, points);
  if (below(2) > 0) {
    view.restore = RestoreMode::kAuto;
    view.rates = slow_disk();
  }
  return view;
}

TEST(PrefixCandidates, NeverContradictThePlan) {
  std::mt19937 random(test_seed());
  for (int round = 0; round < 5000; ++round) {
    const PlanView view = random_view(random);
    const Plan plan = make_plan(view);
    if (plan.start == Plan::Start::kWait) continue;
    std::size_t sources = 0;
    std::size_t points = 0;
    for (const Candidate& one : candidates(view)) {
      const bool taken = one.verdict == Candidate::Verdict::kTaken;
      const bool too_slow = one.verdict == Candidate::Verdict::kTooSlow;
      const bool source = taken && one.kind == Kind::kResident;
      sources += source ? 1 : 0;
      points += taken && one.kind == Kind::kRestorable ? 1 : 0;
      ASSERT_TRUE(!source || one.seq == plan.source) << told(view);
      ASSERT_TRUE(one.reach <= plan.restored_to || (too_slow && plan.load_too_slow)) << told(view);
      ASSERT_TRUE(!too_slow || plan.load_too_slow) << told(view);
    }
    ASSERT_EQ(sources, plan.from_memory > Position{} ? 1U : 0U) << told(view);
    ASSERT_EQ(points, plan.point ? 1U : 0U) << told(view);
  }
}

}  // namespace
}  // namespace kvkeep::policy::candidate_views
