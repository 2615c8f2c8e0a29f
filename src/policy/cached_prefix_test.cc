// Plans of models that need points: a table of situations, then every small view against a naive twin that tries every
// position.

#include "policy/cached_prefix.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "policy/plan.h"
#include "policy/plan_fixture.h"

namespace kvkeep::policy::prefix_twin {
namespace {

// Recurrent state is complete only at its end.
Resident resident(std::int32_t seq, std::size_t length, std::size_t common, bool idle = true) {
  return {SeqId{seq}, at(length), at(common), idle, true, static_cast<std::uint32_t>(length), seq, at(length)};
}

PlanView view_of(std::vector<Resident> residents, std::vector<CachedStep> cached, std::vector<Restorable> restorable) {
  return roomy_view(100, std::move(residents), std::move(cached), std::move(restorable));
}

TEST(CachedPrefix, RowsWithoutAPointAreNoUse) {
  EXPECT_EQ(planned(view_of({}, {step(0, 90)}, {})), "fresh, memory 0, cache 0");
}

TEST(CachedPrefix, TheLastPointOfTheSharedPathIsRestored) {
  EXPECT_EQ(planned(view_of({}, {step(0, 90)}, {point(30), point(70)})), "fresh, memory 0, cache 70, point");
  EXPECT_EQ(planned(view_of({}, {step(0, 60)}, {point(30), point(70)})), "fresh, memory 0, cache 30, point")
      << "rows before a point are needed too";
}

TEST(CachedPrefix, ACompleteSequenceNeedsNoPoint) {
  EXPECT_EQ(planned(view_of({resident(0, 70, 70)}, {step(0, 70)}, {point(70)})), "in place of 0, memory 70, cache 70");
}

TEST(CachedPrefix, APointFurtherOnWinsOverMemory) {
  EXPECT_EQ(planned(view_of({resident(0, 40, 40)}, {step(0, 80)}, {point(80)})),
            "in place of 0, memory 40, cache 80, point");
}

// A resident that cannot be cut where the prompt leaves it still gives its rows up to the point before.
TEST(CachedPrefix, RowsComeFromAResidentThatDoesNotStand) {
  EXPECT_EQ(planned(view_of({resident(0, 300, 80)}, {}, {point(60)})), "fork of 0, memory 60, cache 60, point");
  EXPECT_EQ(planned(view_of({resident(0, 300, 80)}, {step(0, 90)}, {point(85)})),
            "fork of 0, memory 80, cache 85, point");
  EXPECT_EQ(planned(view_of({resident(0, 300, 80)}, {}, {})), "fresh, memory 0, cache 0");
}

TEST(CachedPrefix, AnIdenticalPromptStartsBeforeItsLastToken) {
  EXPECT_EQ(planned(view_of({resident(0, 100, 100)}, {step(0, 100)}, {point(96), point(100)})),
            "fork of 0, memory 96, cache 96, point");
  EXPECT_EQ(planned(view_of({}, {step(0, 100)}, {point(99)})), "fresh, memory 0, cache 99, point");
}

TEST(CachedPrefix, AResidentWhoseWindowIsThereIsCompleteAnywhereInIt) {
  PlanView view = view_of({resident(0, 100, 90)}, {}, {});
  view.residents[0].complete_from = at(90);
  EXPECT_EQ(planned(view), "fork of 0, memory 90, cache 90");
  view.residents[0].complete_from = at(91);
  EXPECT_EQ(planned(view), "fresh, memory 0, cache 0");
}

TEST(CachedPrefix, AWindowRestoresAnyPositionOfItsRun) {
  EXPECT_EQ(planned(view_of({}, {step(0, 64)}, {{at(50), at(80), CacheTier::kRam, ByteCount{1000}}})),
            "fresh, memory 0, cache 64, point");
}

TEST(CachedPrefix, AShorterCompleteResidentWinsOverALongerIncompleteOne) {
  EXPECT_EQ(planned(view_of({resident(0, 300, 80), resident(1, 50, 50)}, {}, {point(40)})),
            "in place of 1, memory 50, cache 50");
}

TEST(CachedPrefix, APointThatLoadsTooSlowlyIsLeftAside) {
  PlanView view = view_of({resident(0, 20, 20)}, {step(0, 90)}, {point(40), point(80, kDisk)});
  view.restore = RestoreMode::kAuto;
  view.rates = {.prefill_tokens_per_s = 100, .ram_restore_bytes_per_s = 1e6, .disk_read_bytes_per_s = 100};
  EXPECT_EQ(planned(view), "in place of 0, memory 20, cache 40, point, too slow");
  view.rates.ram_restore_bytes_per_s = 100;
  EXPECT_EQ(planned(view), "in place of 0, memory 20, cache 20, too slow");
  view.rates = {.prefill_tokens_per_s = 100, .ram_restore_bytes_per_s = 1e6, .disk_read_bytes_per_s = 1e6};
  EXPECT_EQ(planned(view), "in place of 0, memory 20, cache 80, point");
}

TEST(CachedPrefix, LoadingIsComparedWithPrefillingBeyondTheBestOfMemory) {
  PlanView view = view_of({resident(0, 50, 50), resident(1, 20, 20)}, {}, {point(60)});
  view.cached = {{{at(0), at(60)}, CacheTier::kRam, {}}};  // rows of no bytes: the point is all there is to load
  view.restore = RestoreMode::kAuto;
  view.rates = {.prefill_tokens_per_s = 10, .ram_restore_bytes_per_s = 500, .disk_read_bytes_per_s = 1e6};
  EXPECT_EQ(planned(view), "in place of 0, memory 50, cache 50, too slow") << "2 s for 10 tokens";
  view.rates.ram_restore_bytes_per_s = 1500;
  EXPECT_EQ(planned(view), "in place of 0, memory 50, cache 60, point");
}

TEST(CachedPrefix, WhereOnlyPartOfTheRowsIsInRamThePointBeforeItsEndIsTaken) {
  PlanView view = view_of({}, {step(0, 50), step(50, 90, kDisk)}, {point(40), point(80)});
  view.restore = RestoreMode::kAuto;
  view.rates = {.prefill_tokens_per_s = 100, .ram_restore_bytes_per_s = 1e6, .disk_read_bytes_per_s = 100};
  EXPECT_EQ(planned(view), "fresh, memory 0, cache 40, point, too slow");
  view.restorable = {{at(30), at(80), CacheTier::kRam, ByteCount{1000}}};
  EXPECT_EQ(planned(view), "fresh, memory 0, cache 50, point, too slow");
}

TEST(CachedPrefix, EachSlowerTierIsLeftAsideByItself) {
  PlanView view =
      view_of({}, {step(0, 30), step(30, 60, kDisk), step(60, 90, kShared)}, {point(20), point(50), point(80)});
  view.restore = RestoreMode::kAuto;
  view.rates = {.prefill_tokens_per_s = 100,
                .ram_restore_bytes_per_s = 1e6,
                .disk_read_bytes_per_s = 1e6,
                .shared_read_bytes_per_s = 1e6};
  EXPECT_EQ(planned(view), "fresh, memory 0, cache 80, point");
  view.rates.shared_read_bytes_per_s = 100;
  EXPECT_EQ(planned(view), "fresh, memory 0, cache 50, point, too slow");
  view.rates.disk_read_bytes_per_s = 100;
  EXPECT_EQ(planned(view), "fresh, memory 0, cache 20, point, too slow");
  view.restorable = {point(20), point(25, kShared), point(50), point(80)};
  view.rates.shared_read_bytes_per_s = 1e6;
  view.rates.shared_wait_s = 1;
  EXPECT_EQ(planned(view), "fresh, memory 0, cache 20, point, too slow") << "the wait for a point";
  view.needs_points = false;
  EXPECT_EQ(planned(view), "fresh, memory 0, cache 30, too slow");
}

TEST(CachedPrefix, NothingEndsWithinARunThatIsTakenInAsOne) {
  PlanView view = view_of({}, {step(0, 64), step(64, 90, kDisk)}, {{at(50), at(80), CacheTier::kRam, ByteCount{1000}}});
  view.whole = {{at(60), at(79)}};
  EXPECT_EQ(planned(view), "fresh, memory 0, cache 80, point") << "beyond it";
  view.cached.pop_back();
  EXPECT_EQ(planned(view), "fresh, memory 0, cache 60, point") << "segments may end within it";
  view.needs_points = false;
  EXPECT_EQ(planned(view), "fresh, memory 0, cache 60");
  view.cached.clear();
  view.residents = {resident(0, 90, 70)};
  EXPECT_EQ(planned(view), "fork of 0, memory 60, cache 60");
  view.whole = {{at(0), at(79)}};
  EXPECT_EQ(planned(view), "fresh, memory 0, cache 0");
}

// ---- every small view ----

Position whole_until(const PlanView& view, Position where) {
  for (const TokenRange& run : view.whole) {
    while (run.begin < where && where < run.end) where = at(where.value() - 1);
  }
  return where;
}

Position shared(const PlanView& view, const Resident& resident) {
  return whole_until(view, std::min({resident.common, resident.length, at(view.prompt_tokens - 1)}));
}

Position cached_end(const PlanView& view) {
  return view.cached.empty() ? Position{} : whole_until(view, view.cached.back().range.end);
}

bool in_a_run(const PlanView& view, Position where) {
  return std::ranges::any_of(view.restorable,
                             [&](const Restorable& run) { return run.first <= where && where <= run.last; });
}

bool complete_in_memory(const PlanView& view, Position where) {
  return std::ranges::any_of(
      view.residents, [&](const Resident& held) { return shared(view, held) == where && where >= held.complete_from; });
}

bool rows_to(const PlanView& view, Position where) {
  return where <= cached_end(view) ||
         std::ranges::any_of(view.residents, [&](const Resident& held) { return where <= shared(view, held); });
}

// The furthest position where the request can begin: all are tried.
Position naive_best(const PlanView& view) {
  for (Position where = at(view.prompt_tokens - 1); where > Position{}; where = at(where.value() - 1)) {
    if (whole_until(view, where) != where) continue;
    if (complete_in_memory(view, where) || (in_a_run(view, where) && rows_to(view, where))) return where;
  }
  return Position{};
}

std::string wrong(const PlanView& view, const Plan& plan) {
  const bool waits = plan.start == Start::kWait;
  if (waits) return "waits, although there is room";
  if (plan.restored_to != naive_best(view)) return "not the best position";
  if (plan.from_memory > plan.restored_to || plan.load_too_slow) return "no way to it";
  if (plan.restored_to > plan.from_memory && plan.restored_to > cached_end(view)) return "rows from nowhere";
  if (plan.point != (plan.restored_to > Position{} && !complete_in_memory(view, plan.restored_to))) {
    return "a point where none is needed, or none where one is";
  }
  if (plan.point && !in_a_run(view, plan.restored_to)) return "a point that is not there";
  Position most;
  for (const Resident& held : view.residents) {
    most = std::max(most, std::min(shared(view, held), plan.restored_to));
    if (plan.start != Start::kFresh && held.seq == plan.source) {
      if (plan.from_memory > shared(view, held)) return "the source does not hold that";
      const bool complete = plan.from_memory == shared(view, held) && plan.from_memory >= held.complete_from;
      if (!plan.point && !complete) return "the source is not complete";
    }
  }
  return plan.from_memory == most ? "" : "memory had more";
}

std::vector<Resident> all_residents(std::int32_t seq) {
  std::vector<Resident> all;
  for (std::size_t length = 1; length <= 4; ++length) {
    for (std::size_t common = 0; common <= length; ++common) {
      for (const std::size_t complete_from : {std::size_t{0}, length - 1, length}) {
        for (const bool idle : {false, true}) {
          all.push_back(resident(seq, length, common, idle));
          all.back().complete_from = at(complete_from);
        }
      }
    }
  }
  return all;
}

// Every set of points at 1..4, and runs.
std::vector<std::vector<Restorable>> all_restorable() {
  std::vector<std::vector<Restorable>> all{{{at(2), at(3), CacheTier::kRam, {}}},
                                           {{at(1), at(1), kDisk, {}}, {at(3), at(5), CacheTier::kRam, {}}}};
  for (std::size_t set = 0; set < 16; ++set) {
    std::vector<Restorable> points;
    for (std::size_t bit = 0; bit < 4; ++bit) {
      if ((set >> bit & 1U) != 0) points.push_back(point(bit + 1, bit == 1 ? kDisk : CacheTier::kRam));
    }
    all.push_back(points);
  }
  return all;
}

std::vector<std::vector<Resident>> all_memories() {
  std::vector<std::vector<Resident>> memories{{}};
  for (const Resident& one : all_residents(0)) {
    memories.push_back({one});
    for (const Resident& two : all_residents(1)) memories.push_back({one, two});
  }
  return memories;
}

// Empty if the planner keeps to the twin in every small view.
std::string explore(const Planner& plan) {
  const std::vector<std::vector<CachedStep>> caches{
      {}, {step(0, 3)}, {step(0, 1), step(1, 5, kDisk)}, {step(0, 1), step(1, 3, kDisk), step(3, 5, kShared)}};
  const auto restorable = all_restorable();
  for (const auto& residents : all_memories()) {
    for (const auto& cached : caches) {
      for (const auto& runs : restorable) {
        PlanView view = view_of(residents, cached, runs);
        for (const std::size_t whole_end : {0, 3, 4}) {
          view.whole.assign(whole_end > 0 ? 1 : 0, {at(1), at(whole_end)});
          for (view.prompt_tokens = 1; view.prompt_tokens <= 5; view.prompt_tokens += 2) {
            if (auto what = wrong(view, plan(view)); !what.empty()) return what;
          }
        }
      }
    }
  }
  return "";
}

TEST(CachedPrefix, ReusesTheBestRestorablePositionInEverySmallView) { EXPECT_EQ(explore(make_plan), ""); }

TEST(CachedPrefix, TheTwinCatchesMutants) {
  const auto seeing = [](std::function<void(PlanView&)> change) {
    return [change](PlanView view) {
      change(view);
      return make_plan(view);
    };
  };
  const std::vector<Planner> mutants{
      seeing([](PlanView& view) { view.needs_points = false; }),
      seeing([](PlanView& view) {
        for (Resident& held : view.residents) held.complete_from = at(0);
      }),
      seeing([](PlanView& view) {
        for (Resident& held : view.residents) held.complete_from = held.length;
      }),
      seeing([](PlanView& view) {
        if (!view.restorable.empty()) view.restorable.pop_back();
      }),
      seeing([](PlanView& view) {
        for (Restorable& run : view.restorable) run.last = run.first;
      }),
      seeing([](PlanView& view) { view.cached.clear(); }),
      seeing([](PlanView& view) { view.whole.clear(); }),
      seeing([](PlanView& view) { view.residents.clear(); }),
      seeing([](PlanView& view) { ++view.prompt_tokens; }),
      [](const PlanView& view) {
        Plan plan = make_plan(view);
        plan.point = !plan.point;
        return plan;
      },
  };
  for (std::size_t i = 0; i < mutants.size(); ++i) EXPECT_NE(explore(mutants[i]), "") << "mutant " << i;
}

// With a point of no bytes everywhere, points are no obstacle: the plan is the one for only rows, at any rates.
TEST(CachedPrefix, PointsEverywhereAreAsGoodAsRows) {
  const std::vector<std::vector<CachedStep>> caches{
      {}, {step(0, 3)}, {step(0, 1), step(1, 5, kDisk)}, {step(0, 1), step(1, 3, kDisk), step(3, 5, kShared)}};
  for (const auto& residents : all_memories()) {
    for (const auto& cached : caches) {
      for (const double disk_bytes_per_s : {0.0, 10.0, 1e9}) {
        PlanView view = view_of(residents, cached, {});
        for (Resident& held : view.residents) held.complete_from = Position{};
        view.prompt_tokens = 5;
        view.restore = RestoreMode::kAuto;
        view.rates = {
            .prefill_tokens_per_s = 1, .ram_restore_bytes_per_s = 1e9, .disk_read_bytes_per_s = disk_bytes_per_s};
        view.needs_points = false;
        const Plan rows_alone = make_plan(view);
        view.needs_points = true;
        view.restorable = {{Position{}, at(9), CacheTier::kRam, {}}};
        Plan plan = make_plan(view);
        EXPECT_EQ(plan.point, plan.restored_to > plan.from_memory);
        plan.point = false;
        ASSERT_EQ(plan, rows_alone) << text(plan) << " / " << text(rows_alone);
      }
    }
  }
}

// Slow loading may cost reach, but never what the memory gives by itself.
TEST(CachedPrefix, NeverLessThanMemoryGivesInAnySmallView) {
  for (const auto& residents : all_memories()) {
    for (const auto& runs : all_restorable()) {
      PlanView view = view_of(residents, {step(0, 2), step(2, 5, kDisk)}, runs);
      view.prompt_tokens = 5;
      const Position best = naive_best(view);
      view.restore = RestoreMode::kAuto;
      view.rates = {.prefill_tokens_per_s = 10, .ram_restore_bytes_per_s = 5000, .disk_read_bytes_per_s = 1500};
      const Plan plan = make_plan(view);
      PlanView alone = view;
      alone.restorable.clear();
      ASSERT_GE(plan.restored_to, naive_best(alone));
      ASSERT_LE(plan.restored_to, best);
      ASSERT_EQ(plan.load_too_slow, plan.restored_to < best);
    }
  }
}

}  // namespace
}  // namespace kvkeep::policy::prefix_twin
