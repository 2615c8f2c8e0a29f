// Every small prompt against the laws of cut.h, and mutants that the laws must catch.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "policy/cut.h"
#include "policy/cut_fixture.h"

namespace kvkeep::policy::cut_laws {
namespace {

bool has(const std::vector<Position>& all, Position position) { return std::ranges::find(all, position) != all.end(); }

// Every reason there may be for a cut, each by the rule's own words.
std::set<CutReason> reasons(const CutView& view, Position where) {
  const CutOptions& options = view.options;
  const PromptMarkers& markers = view.markers;
  std::set<CutReason> out;
  const Position last = at(view.prompt_tokens - 1);
  if (where == std::min(last, markers.generation_prompt.value_or(last))) out.insert(CutReason::kTurn);
  bool any_anchor = false;
  for (const Anchor which : {Anchor::kFirst, Anchor::kLast}) {
    const auto anchor = anchor_pos(options, markers, which);
    any_anchor |= anchor.has_value();
    if (anchor == where && view.prompt_tokens <= options.cold_max_tokens) out.insert(CutReason::kAnchor);
  }
  const bool cold = view.cached == Position{} && !any_anchor && view.prompt_tokens <= options.cold_max_tokens;
  if (cold && where == at(store_len(options, view.prompt_tokens))) out.insert(CutReason::kCold);
  const bool asked = options.anchor_user && view.prompt_tokens <= options.cold_max_tokens &&
                     (markers.assistant_turns.empty() || where <= markers.assistant_turns.front());
  const bool user_end = options.loops_change && !markers.user_turns.empty() && where > markers.user_turns.back() &&
                        std::ranges::none_of(markers.message_ends, [&](Position end) {
                          return end > markers.user_turns.back() && end < where;
                        });
  if (has(markers.message_ends, where) && (asked || user_end)) out.insert(CutReason::kMessage);
  if (where == view.known && view.known.value() < view.prompt_tokens) out.insert(CutReason::kBranch);
  if (options.continued_interval_tokens > 0 && where.value() % options.continued_interval_tokens == 0) {
    out.insert(CutReason::kContinued);
  }
  return out;
}

bool essential(const CutView& view, Position where) {
  const auto why = reasons(view, where);
  return why.contains(CutReason::kTurn) || why.contains(CutReason::kAnchor);
}

// A branch at `at` may lie near the anchor before it.
bool opens(const CutView& view, Position anchor, Position at) {
  const bool is_anchor = anchor_pos(view.options, view.markers, Anchor::kFirst) == anchor ||
                         anchor_pos(view.options, view.markers, Anchor::kLast) == anchor;
  return is_anchor && anchor < at && at.value() < anchor.value() + 32 && reasons(view, at).contains(CutReason::kBranch);
}

// An anchor whose place a branch takes, because prompts part there again.
bool replaced(const CutView& view, Position anchor) {
  return view.cached == view.known && has(view.points, view.known) && has(view.points, anchor) &&
         opens(view, anchor, view.known);
}

std::string wrong_cut(const CutView& view, const CutPlan& plan, std::size_t i) {
  const Cut& cut = plan.cuts[i];
  if (i > 0 && plan.cuts[i - 1].at >= cut.at) return "not ascending";
  if (cut.at <= view.cached || cut.at > at(view.prompt_tokens)) return "not where prefill comes by";
  if (cut.at.value() < view.options.min_tokens) return "below the minimum";
  if (has(view.points, cut.at)) return "a second point";
  if (!reasons(view, cut.at).contains(cut.reason)) return "no such reason";
  const bool rank =
      cut.reason == CutReason::kTurn || cut.reason == CutReason::kAnchor || cut.reason == CutReason::kMessage;
  Position before = i > 0 ? std::max(view.cached, plan.cuts[i - 1].at) : view.cached;
  for (const Position point : view.points) {
    if (point <= cut.at) before = std::max(before, point);
  }
  const bool near = cut.at - before < view.options.least_step_tokens;
  return !rank && near && !opens(view, before, cut.at) ? "too near to the one before" : "";
}

// Where something is left out, there is a reason for that, too.
std::string wrong_gap(const CutView& view, const CutPlan& plan, Position where) {
  const bool cut = std::ranges::find(plan.cuts, where, &Cut::at) != plan.cuts.end();
  if (cut || has(view.points, where) || where <= view.cached || where.value() < view.options.min_tokens) return "";
  if (view.options.most_points < view.points.size() + plan.cuts.size() + 1) return "";
  if (essential(view, where)) return "an anchor or turn is left out";
  const auto why = reasons(view, where);
  if (why.empty() || why == std::set{CutReason::kMessage}) return "";
  if (why.contains(CutReason::kBranch) && opens(view, view.cached, where)) return "an opening is left out";
  for (std::size_t near = where.value() - std::min<std::size_t>(where.value(), view.options.least_step_tokens - 1);
       near <= where.value(); ++near) {
    const bool there = std::ranges::find(plan.cuts, at(near), &Cut::at) != plan.cuts.end() || at(near) == view.cached;
    if (there || has(view.points, at(near))) return "";
  }
  return why.contains(CutReason::kMessage) ? "" : "left out for nothing";
}

std::string wrong_limit(const CutView& view, const CutPlan& plan) {
  if (!std::ranges::is_sorted(plan.leave)) return "leaves in no order";
  for (const Position leaving : plan.leave) {
    if (!has(view.points, leaving)) return "what is not there cannot leave";
  }
  const std::size_t then = view.points.size() + plan.cuts.size() - plan.leave.size();
  if (then > view.options.most_points) return "more than allowed";
  for (const Position point : view.points) {
    if (replaced(view, point) && !has(plan.leave, point)) return "a replaced anchor stays";
  }
  const bool needed = std::ranges::any_of(plan.leave, [&](Position leaving) { return !replaced(view, leaving); });
  return needed && then < view.options.most_points ? "leaves for nothing" : "";
}

// The awaited position is the first point, or position of a run, of the boundary that closes the last user message.
std::string wrong_awaited(const CutView& view, const CutPlan& plan) {
  std::optional<Position> user_end;
  for (const Position end : view.markers.message_ends) {
    const bool behind = !view.markers.user_turns.empty() && end > view.markers.user_turns.back();
    if (behind && !user_end) user_end = end;
  }
  std::optional<Position> expected;
  for (std::size_t i = 1; i <= view.prompt_tokens; ++i) {
    const bool closes = user_end && at(i) >= *user_end && at(i) - *user_end <= 8;
    const bool stays = has(view.points, at(i)) && !has(plan.leave, at(i));
    const bool in_run =
        std::ranges::any_of(view.runs, [i](TokenRange run) { return run.begin <= at(i) && at(i) < run.end; });
    if (view.options.loops_change && closes && (stays || in_run) && !expected) expected = at(i);
  }
  if (plan.awaited == expected) return "";
  return plan.awaited ? "awaited without need" : "nothing is awaited";
}

std::string broken_law(const CutView& view, const CutPlan& plan) {
  for (std::size_t i = 0; i < plan.cuts.size(); ++i) {
    if (auto wrong = wrong_cut(view, plan, i); !wrong.empty()) return wrong;
  }
  for (std::size_t where = 1; where <= view.prompt_tokens; ++where) {
    if (auto wrong = wrong_gap(view, plan, at(where)); !wrong.empty()) return wrong;
  }
  if (auto wrong = wrong_awaited(view, plan); !wrong.empty()) return wrong;
  return wrong_limit(view, plan);
}

std::vector<Position> subset(std::uint32_t bits) {
  std::vector<Position> out;
  for (std::uint32_t bit = 0; bit < 5; ++bit) {
    if ((bits >> bit & 1U) != 0) out.push_back(at(bit + 1));
  }
  return out;
}

std::vector<TokenRange> runs(std::uint32_t which) {
  if (which == 0) return {};
  if (which == 1) return {{at(3), at(5)}};
  return {{at(1), at(3)}, {at(4), at(6)}};
}

std::vector<PromptMarkers> all_markers() {
  std::vector<PromptMarkers> all;
  for (std::uint32_t turns = 0; turns < 32; ++turns) {
    for (std::uint32_t answer = 0; answer < 6; ++answer) {
      const auto answers = answer == 0 ? std::vector<Position>{} : positions({answer});
      for (const std::uint32_t ends : {0U, turns >> 1, 31U}) all.push_back({subset(turns), answers, subset(ends), {}});
      all.push_back({subset(turns), answers, subset(24), at(4)});
    }
  }
  return all;
}

std::vector<CutOptions> all_options() {
  std::vector<CutOptions> all;
  for (const std::size_t min : {0U, 2U}) {
    for (const std::size_t cold_max : {0U, 5U, 9U}) {
      for (const std::size_t step : {1U, 2U}) {
        for (const std::size_t most : {std::size_t{2}, SIZE_MAX})
          all.push_back({min, cold_max, 3, 1, 1, step == 1, most, step, cold_max != 5});
      }
    }
  }
  return all;
}

// The first law that is broken in any small prompt; empty: none.
std::string explore(const Cutter& cutter) {
  const auto options = all_options();
  for (const PromptMarkers& markers : all_markers()) {
    for (const CutOptions& option : options) {
      for (std::uint32_t cached = 0; cached < 6; cached += 2) {
        for (std::uint32_t points = 0; points < 32; points += 5) {
          const CutView view{option, 6, markers, at(cached), at(cached + points % 3), subset(points), runs(points % 3)};
          if (auto broken = broken_law(view, cutter(view)); !broken.empty()) return broken + ": " + text(cutter(view));
        }
      }
    }
  }
  return "";
}

// Fine cuts: those of a plan without them are as they were; each lies apart from all others, none is a point, and there
// are no more than allowed.
std::string broken_by_fine(const CutView& view, const CutPlan& plan, const CutPlan& without) {
  std::vector<Cut> others;
  std::vector<Position> taken = view.points;
  taken.push_back(view.cached);
  for (const Cut& cut : plan.cuts) (cut.in_ram ? void() : others.push_back(cut));
  for (const Cut& cut : others) taken.push_back(cut.at);
  if (others != without.cuts || plan.leave != without.leave) return "others are not as they were";
  std::size_t count = 0;
  for (const Cut& cut : plan.cuts) {
    if (!cut.in_ram) continue;
    if (++count > view.most_fine) return "too many";
    if (!has(view.fine, cut.at) || cut.reason != CutReason::kLikely) return "nobody wanted it";
    for (const Position other : taken) {
      const std::size_t apart = std::max(other, cut.at) - std::min(other, cut.at);
      if (apart < view.options.least_step_tokens) return "too near";
    }
    taken.push_back(cut.at);
  }
  if (count == 0 && view.most_fine >= view.fine.size()) {
    for (const Position wanted : view.fine) {
      const bool near = std::ranges::any_of(taken, [&](Position other) {
        return std::max(other, wanted) - std::min(other, wanted) < view.options.least_step_tokens;
      });
      if (!near && wanted > view.cached && wanted.value() >= view.options.min_tokens) return "left out for nothing";
    }
  }
  return "";
}

std::string explore_fine(const Cutter& cutter) {
  for (std::uint32_t fine = 0; fine < 32; ++fine) {
    for (std::uint32_t points = 0; points < 32; ++points) {
      for (const std::size_t most : {0U, 1U, 2U, 9U}) {
        for (const std::size_t step : {1U, 2U}) {
          for (std::uint32_t cached = 0; cached < 5; ++cached) {
            CutView view{{2, SIZE_MAX, 0, 1, 1, true, SIZE_MAX, step, true},
                         6,
                         {subset(4), {}, {}, {}},
                         at(cached),
                         at(cached),
                         subset(points)};
            const CutPlan without = plan_cuts(view);
            view.fine = subset(fine);
            view.most_fine = most;
            if (auto broken = broken_by_fine(view, cutter(view), without); !broken.empty()) return broken;
          }
        }
      }
    }
  }
  return "";
}

TEST(PlanCuts, FineCutsKeepTheirLawsInEverySmallPrompt) {
  EXPECT_EQ(explore_fine(plan_cuts), "");
  const std::vector<std::function<void(CutView&)>> mutants{
      [](CutView& view) { view.most_fine = 9; },
      [](CutView& view) { view.fine.clear(); },
      [](CutView& view) { view.options.least_step_tokens = 1; },
      [](CutView& view) { view.points.clear(); },
  };
  for (std::size_t i = 0; i < mutants.size(); ++i) {
    const auto mutant = [&](CutView view) {
      mutants[i](view);
      return plan_cuts(view);
    };
    EXPECT_NE(explore_fine(mutant), "") << "mutant " << i;
  }
}

TEST(PlanCuts, KeepsTheLawsInEverySmallPrompt) { EXPECT_EQ(explore(plan_cuts), ""); }

TEST(PlanCuts, TheLawsCatchMutants) {
  const auto seeing = [](std::function<void(CutView&)> change) {
    return [change](CutView view) {
      change(view);
      return plan_cuts(view);
    };
  };
  const auto doing = [](std::function<void(CutPlan&)> change) {
    return [change](const CutView& view) {
      CutPlan plan = plan_cuts(view);
      change(plan);
      return plan;
    };
  };
  const std::vector<Cutter> mutants{
      seeing([](CutView& view) { view.options.min_tokens = 0; }),
      seeing([](CutView& view) { view.options.cold_max_tokens = SIZE_MAX; }),
      seeing([](CutView& view) { view.options.most_points = SIZE_MAX; }),
      seeing([](CutView& view) { view.options.least_step_tokens = 1; }),
      seeing([](CutView& view) { view.options.least_step_tokens = 4; }),
      seeing([](CutView& view) { view.options.continued_interval_tokens = 0; }),
      seeing([](CutView& view) { view.options.anchor_user = false; }),
      seeing([](CutView& view) { view.options.anchor_user = true; }),
      seeing([](CutView& view) { view.options.loops_change = true; }),
      seeing([](CutView& view) { view.options.loops_change = false; }),
      seeing([](CutView& view) { view.points.clear(); }),
      seeing([](CutView& view) { view.runs.clear(); }),
      seeing([](CutView& view) { view.known = view.cached; }),
      seeing([](CutView& view) { view.cached = at(0); }),
      seeing([](CutView& view) { view.markers.generation_prompt.reset(); }),
      seeing([](CutView& view) { view.markers.assistant_turns.clear(); }),
      seeing([](CutView& view) { ++view.prompt_tokens; }),
      doing([](CutPlan& plan) { plan.leave.clear(); }),
      doing([](CutPlan& plan) { plan.awaited.reset(); }),
      doing([](CutPlan& plan) { std::ranges::reverse(plan.cuts); }),
      doing([](CutPlan& plan) {
        for (Cut& cut : plan.cuts) cut.reason = CutReason::kContinued;
      }),
  };
  for (std::size_t i = 0; i < mutants.size(); ++i) EXPECT_NE(explore(mutants[i]), "") << "mutant " << i;
}

}  // namespace
}  // namespace kvkeep::policy::cut_laws
