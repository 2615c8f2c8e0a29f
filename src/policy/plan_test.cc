// Plans: a table of situations with names, then every small view against the invariants of plan.h.

#include "policy/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "policy/plan_fixture.h"

namespace kvkeep::policy {
namespace {

Resident idle(std::int32_t seq, std::size_t length, std::size_t common, bool captured = true) {
  return {SeqId{seq}, at(length), at(common), true, captured, static_cast<std::uint32_t>(length), seq};
}

Resident running(std::int32_t seq, std::size_t length, std::size_t common) {
  return {SeqId{seq}, at(length), at(common), false, true, static_cast<std::uint32_t>(length), seq};
}

// A 1000-cell memory with room for everything that is named.
PlanView view_of(std::size_t prompt_tokens, std::vector<Resident> residents, std::vector<CachedStep> cached = {}) {
  PlanView view;
  view.prompt_tokens = prompt_tokens;
  view.cells_total = 1000;
  view.cells_free = 1000;
  for (const Resident& resident : residents) view.cells_free -= resident.cells_owned;
  view.residents = std::move(residents);
  view.cached = std::move(cached);
  view.sequence_free = true;
  view.reply_room = 50;
  view.restore = RestoreMode::kAlways;
  return view;
}

TEST(MakePlan, NothingKnown) { EXPECT_EQ(planned(view_of(100, {})), "fresh, memory 0, cache 0"); }

TEST(MakePlan, TheNextTurnExtendsItsConversationInPlace) {
  EXPECT_EQ(planned(view_of(100, {idle(0, 80, 80), idle(1, 90, 10)})), "in place of 0, memory 80, cache 80");
}

TEST(MakePlan, AnIdenticalPromptStillDecodesItsLastToken) {
  EXPECT_EQ(planned(view_of(100, {idle(0, 100, 100)})), "in place of 0, memory 99, cache 99");
  EXPECT_EQ(planned(view_of(100, {}, {step(0, 60), step(60, 100)})), "fresh, memory 0, cache 99");
  EXPECT_EQ(planned(view_of(1, {idle(0, 100, 1)}, {step(0, 100)})), "fresh, memory 0, cache 0");
}

TEST(MakePlan, CachedRowsContinueWhatIsInMemory) {
  EXPECT_EQ(planned(view_of(100, {idle(0, 40, 40)}, {step(0, 60), step(60, 90)})),
            "in place of 0, memory 40, cache 90");
}

TEST(MakePlan, MemoryIsPreferredWhereTheCacheReachesNoFurther) {
  EXPECT_EQ(planned(view_of(100, {idle(0, 60, 60)}, {step(0, 60)})), "in place of 0, memory 60, cache 60");
}

TEST(MakePlan, WhereForksCopyRowsComeFromRamInstead) {
  const auto planned_copying = [](PlanView view) {
    view.forks_copy = true;
    return planned(view);
  };
  EXPECT_EQ(planned_copying(view_of(100, {idle(0, 300, 60)}, {step(0, 60)})), "fresh, memory 0, cache 60");
  EXPECT_EQ(planned_copying(view_of(100, {running(0, 300, 60)}, {step(0, 80)})), "fresh, memory 0, cache 80");
  EXPECT_EQ(planned_copying(view_of(100, {idle(0, 300, 60)}, {step(0, 50)})), "fork of 0, memory 60, cache 60");
  EXPECT_EQ(planned_copying(view_of(100, {idle(0, 60, 60)}, {step(0, 60)})), "in place of 0, memory 60, cache 60")
      << "nothing is copied";
  PlanView on_disk = view_of(100, {running(0, 300, 60)}, {step(0, 60)});
  on_disk.cached.front().tier = CacheTier::kDisk;
  EXPECT_EQ(planned_copying(on_disk), "fork of 0, memory 60, cache 60") << "a copy in memory is faster than a disk";
}

TEST(MakePlan, ABranchForksSoThatTheMainLineStays) {
  EXPECT_EQ(planned(view_of(100, {idle(0, 300, 60)})), "fork of 0, memory 60, cache 60");
  EXPECT_EQ(planned(view_of(100, {idle(0, 300, 60, false)})), "fork of 0, memory 60, cache 60");
}

TEST(MakePlan, ARunningSequenceIsForked) {
  EXPECT_EQ(planned(view_of(100, {running(0, 60, 60)})), "fork of 0, memory 60, cache 60");
}

TEST(MakePlan, WithoutAFreeSequenceTheLeastRecentlyUsedLeaves) {
  PlanView view = view_of(100, {idle(2, 80, 0), idle(1, 80, 0), running(3, 60, 60)});
  view.sequence_free = false;
  EXPECT_EQ(planned(view), "fork of 3, memory 60, cache 60, leaves 1");
}

// A side request that shares the system prompt with the conversation used last must not push that out, but it may push
// out an older one; if the shared one is the oldest itself, it is taken over, for its tail can be restored.
TEST(MakePlan, ACapturedTailGivesWayByRecency) {
  PlanView view = view_of(30, {idle(1, 80, 0), idle(2, 80, 20)});
  view.sequence_free = false;
  EXPECT_EQ(planned(view), "fork of 2, memory 20, cache 20, leaves 1");
  view = view_of(30, {idle(1, 80, 20), idle(2, 80, 0)});
  view.sequence_free = false;
  EXPECT_EQ(planned(view), "in place of 1, memory 20, cache 20");
  view.residents[0].captured = false;
  EXPECT_EQ(planned(view), "fork of 1, memory 20, cache 20, leaves 2");
  view.residents.pop_back();
  EXPECT_EQ(planned(view), "in place of 1, memory 20, cache 20");
}

TEST(MakePlan, CellsAreMadeBeforeTheyAreNeeded) {
  EXPECT_EQ(planned(view_of(500, {idle(1, 300, 0), idle(2, 300, 0)})), "fresh, memory 0, cache 0, leaves 1");
  EXPECT_EQ(planned(view_of(900, {idle(1, 300, 300), idle(2, 300, 0)})),
            "in place of 1, memory 300, cache 300, leaves 2");
}

TEST(MakePlan, ThoseWhoseLeavingFreesNothingStay) {
  PlanView view = view_of(500, {idle(1, 300, 0), idle(2, 600, 0)});
  view.residents[0].cells_owned = 0;  // shares all its cells with 2
  view.cells_free = 400;
  EXPECT_EQ(planned(view), "fresh, memory 0, cache 0, leaves 2");
  view.residents[1].cells_owned = 0;  // both share everything: only together they free cells
  EXPECT_EQ(planned(view), "fresh, memory 0, cache 0, leaves 1, leaves 2");
}

TEST(MakePlan, IdleResidentsKeepFewCells) {
  PlanView view = view_of(100, {idle(1, 300, 0), idle(2, 300, 0), idle(3, 150, 100)});
  view.idle_cells = 400;
  EXPECT_EQ(planned(view), "fork of 3, memory 99, cache 99, leaves 1");
  view.idle_cells = 100;
  EXPECT_EQ(planned(view), "fork of 3, memory 99, cache 99, leaves 1, leaves 2");
  view.residents[0].captured = false;
  EXPECT_EQ(planned(view), "fork of 3, memory 99, cache 99, leaves 2") << "what would be lost stays";
}

TEST(MakePlan, AnIdleResidentThatKeepsNoCellsStays) {
  PlanView view = view_of(100, {idle(1, 300, 0), idle(2, 300, 0)});
  view.residents[0].cells_owned = 0;  // shares all its cells with 2
  view.idle_cells = 100;
  EXPECT_EQ(planned(view), "fresh, memory 0, cache 0, leaves 2");
}

TEST(MakePlan, ACapturedSourceIsDisturbedBeforeAnEqualOne) {
  EXPECT_EQ(planned(view_of(100, {idle(0, 300, 60), idle(1, 300, 60, false)})), "fork of 0, memory 60, cache 60")
      << "though the other one was used later";
}

// Two conversations always share the first tokens of their template.
TEST(MakePlan, AForkLeavesFewCellsBehind) {
  PlanView view = view_of(100, {idle(1, 300, 2)});
  view.idle_cells = 298;
  EXPECT_EQ(planned(view), "fork of 1, memory 2, cache 2");
  view.idle_cells = 297;
  EXPECT_EQ(planned(view), "in place of 1, memory 2, cache 2");
  view.residents[0].captured = false;
  EXPECT_EQ(planned(view), "fork of 1, memory 2, cache 2") << "what would be lost stays";
  view = view_of(100, {idle(1, 200, 0), idle(2, 300, 2)});
  view.idle_cells = 400;
  EXPECT_EQ(planned(view), "fork of 2, memory 2, cache 2, leaves 1") << "what a fork leaves behind counts too";
}

TEST(MakePlan, ARequestThatDoesNotFitNextToRunningOnesWaits) {
  EXPECT_EQ(planned(view_of(500, {running(1, 600, 0), idle(2, 300, 0)})), "wait");
  PlanView view = view_of(10, {running(1, 10, 0)});
  view.sequence_free = false;
  EXPECT_EQ(planned(view), "wait");
}

TEST(MakePlan, AReplyThatCannotHaveItsRoomStartsAllTheSame) {
  EXPECT_EQ(planned(view_of(990, {idle(1, 300, 0)})), "fresh, memory 0, cache 0, leaves 1");
}

TEST(MakePlan, SlowLoadingIsLeftAside) {
  PlanView view = view_of(100, {idle(0, 20, 20)}, {step(0, 40), step(40, 90, kDisk)});
  view.restore = RestoreMode::kAuto;
  view.rates = {.prefill_tokens_per_s = 100, .ram_restore_bytes_per_s = 1e6, .disk_read_bytes_per_s = 100};
  EXPECT_EQ(planned(view), "in place of 0, memory 20, cache 40, too slow");
  view.rates.ram_restore_bytes_per_s = 10;
  EXPECT_EQ(planned(view), "in place of 0, memory 20, cache 20, too slow");
  view.rates = {.prefill_tokens_per_s = 100, .ram_restore_bytes_per_s = 1e6, .disk_read_bytes_per_s = 1e6};
  EXPECT_EQ(planned(view), "in place of 0, memory 20, cache 90");
}

// ---- every small view ----

const Resident* find(const PlanView& view, SeqId seq) {
  const auto found = std::ranges::find(view.residents, seq, &Resident::seq);
  return found == view.residents.end() ? nullptr : &*found;
}

bool somebody_runs(const PlanView& view) {
  return std::ranges::any_of(view.residents, [](const Resident& resident) { return !resident.idle; });
}

std::string wrong_reach(const PlanView& view, const Plan& plan) {
  const Position limit = at(view.prompt_tokens - 1);
  if (plan.from_memory > plan.restored_to || plan.restored_to > limit) return "at least one token is decoded";
  Position reach = view.cached.empty() ? Position{} : std::min(limit, view.cached.back().range.end);
  if (plan.restored_to > plan.from_memory && plan.restored_to > reach) return "restores what is not cached";
  for (const Resident& resident : view.residents) {
    if (std::min(limit, resident.common) > plan.from_memory) return "memory had more";
    reach = std::max(reach, std::min(limit, resident.common));
  }
  return plan.restored_to == reach && !plan.load_too_slow ? "" : "not the longest reach";
}

std::string wrong_source(const PlanView& view, const Plan& plan) {
  if (plan.start == Start::kFresh) return plan.from_memory == Position{} ? "" : "memory without a source";
  const Resident* source = find(view, plan.source);
  if (source == nullptr || source->common < plan.from_memory) return "the source does not hold that";
  if (plan.from_memory == Position{}) return "a source for nothing";
  if (plan.start == Start::kInPlace && !source->idle) return "a running sequence is disturbed";
  return "";
}

// Cells that are certain to be free when `leave` left and the source was truncated.
std::size_t cells_then(const PlanView& view, const Plan& plan, std::size_t leavers) {
  std::size_t cells = view.cells_free;
  for (std::size_t i = 0; i < leavers; ++i) cells += find(view, plan.leave[i])->cells_owned;
  if (plan.start == Start::kInPlace) {
    const Resident* source = find(view, plan.source);
    cells += std::min<std::size_t>(source->cells_owned, source->length - plan.from_memory);
  }
  return cells;
}

std::string wrong_room(const PlanView& view, const Plan& plan) {
  std::set<SeqId> gone;
  for (const SeqId seq : plan.leave) {
    const Resident* resident = find(view, seq);
    if (resident == nullptr || !resident->idle || !gone.insert(seq).second)
      return "who leaves is idle, and leaves once";
    if (plan.start != Start::kFresh && seq == plan.source) return "the source leaves";
  }
  const bool needs_sequence = plan.start != Start::kInPlace && !view.sequence_free;
  if (needs_sequence && plan.leave.empty()) return "no sequence";
  const std::size_t spare = view.cells_total > view.prompt_tokens ? view.cells_total - view.prompt_tokens : 0;
  const std::size_t needed = view.prompt_tokens - plan.from_memory.value() + std::min(view.reply_room, spare);
  const bool fits = cells_then(view, plan, plan.leave.size()) >= needed;
  const auto others = static_cast<std::size_t>(std::ranges::count_if(view.residents, [&](const Resident& resident) {
    return resident.idle && (plan.start == Start::kFresh || resident.seq != plan.source);
  }));
  if (!fits && (somebody_runs(view) || plan.leave.size() < others)) return "too few cells";
  if (plan.leave.empty() || !fits) return "";
  const bool one_less = cells_then(view, plan, plan.leave.size() - 1) >= needed;
  return one_less && !(needs_sequence && plan.leave.size() == 1) ? "one leaves for nothing" : "";
}

// Without a captured tail nothing is taken over while it could be forked within the cells that are free anyway.
std::string wrong_loss(const PlanView& view, const Plan& plan) {
  if (plan.start != Start::kInPlace) return "";
  const Resident* source = find(view, plan.source);
  if (source->length <= plan.from_memory + 1) return "";
  const std::size_t needed = view.prompt_tokens - plan.from_memory.value() + view.reply_room;
  return view.sequence_free && view.cells_free >= needed ? "a tail is cut for nothing" : "";
}

std::string broken_invariant(const PlanView& view, const Plan& plan) {
  if (plan.start == Start::kWait) return somebody_runs(view) ? "" : "waits for nobody";
  for (const auto check : {wrong_reach, wrong_source, wrong_room, wrong_loss}) {
    if (auto wrong = check(view, plan); !wrong.empty()) return wrong;
  }
  return "";
}

std::vector<Resident> all_residents(std::int32_t seq, std::size_t longest) {
  std::vector<Resident> all;
  for (std::size_t length = 0; length <= longest; ++length) {
    for (std::size_t common = 0; common <= length; ++common) {
      for (std::uint32_t owned = 0; owned <= length; owned += 2) {
        for (const int kind : {0, 1, 2}) {
          all.push_back({SeqId{seq}, at(length), at(common), kind != 0, kind == 2, owned, seq});
        }
      }
    }
  }
  return all;
}

// Calls visit for each view of up to two residents of up to four tokens; stops at the first broken invariant.
std::string explore(const Planner& plan) {
  const std::vector<std::vector<CachedStep>> caches{{}, {step(0, 2)}, {step(0, 1), step(1, 5, kDisk)}};
  std::vector<std::vector<Resident>> memories{{}};
  for (const Resident& one : all_residents(0, 4)) {
    memories.push_back({one});
    for (const Resident& two : all_residents(1, 4)) memories.push_back({one, two});
  }
  for (const auto& residents : memories) {
    for (const auto& cached : caches) {
      for (const std::size_t prompt : {1U, 3U, 5U}) {
        for (std::uint32_t extra = 0; extra < 6; extra += 2) {
          for (const bool sequence_free : {false, true}) {
            if (residents.empty() && !sequence_free) continue;  // no sequences at all
            PlanView view{prompt, residents, cached, extra, sequence_free, 1, 0, SIZE_MAX, RestoreMode::kAlways, {}};
            std::uint32_t used = 0;
            for (const Resident& resident : residents) used += resident.length.value();
            view.cells_total = std::max<std::uint32_t>(used + extra, 6);
            if (auto broken = broken_invariant(view, plan(view)); !broken.empty()) return broken;
          }
        }
      }
    }
  }
  return "";
}

TEST(MakePlan, KeepsTheInvariantsInEverySmallView) { EXPECT_EQ(explore(make_plan), ""); }

TEST(MakePlan, TheInvariantsCatchMutants) {
  const auto mutant = [](std::function<void(const PlanView&, Plan&)> change) {
    return [change](const PlanView& view) {
      Plan plan = make_plan(view);
      change(view, plan);
      return plan;
    };
  };
  const std::vector<Planner> mutants{
      mutant([](const PlanView& view, Plan& plan) { plan.restored_to = at(view.prompt_tokens); }),
      mutant([](const PlanView&, Plan& plan) { plan.restored_to = plan.from_memory; }),
      mutant([](const PlanView&, Plan& plan) { plan.from_memory = Position{}; }),
      mutant([](const PlanView&, Plan& plan) { plan.leave.clear(); }),
      mutant([](const PlanView&, Plan& plan) {
        if (plan.start == Start::kFork) plan.leave.push_back(plan.source);
      }),
      mutant([](const PlanView&, Plan& plan) {
        if (plan.start == Start::kFork) plan.start = Start::kInPlace;
      }),
      mutant([](const PlanView&, Plan& plan) { plan.start = Start::kWait; }),
      mutant([](const PlanView& view, Plan& plan) {
        for (const Resident& resident : view.residents) {
          const bool source = plan.start != Start::kFresh && resident.seq == plan.source;
          if (resident.idle && !source && plan.leave.empty()) plan.leave.push_back(resident.seq);
        }
      }),
  };
  for (std::size_t i = 0; i < mutants.size(); ++i) EXPECT_NE(explore(mutants[i]), "") << "mutant " << i;
}

}  // namespace
}  // namespace kvkeep::policy
