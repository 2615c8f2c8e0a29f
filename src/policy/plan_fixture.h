#pragma once

// For tests of plans: steps and points of the cache, a view of them, and a plan as one line of text.

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "policy/numbers_fixture.h"
#include "policy/plan.h"

namespace kvkeep::policy {

using Start = Plan::Start;
using Planner = std::function<Plan(const PlanView&)>;

inline constexpr CacheTier kDisk = CacheTier::kDisk;
inline constexpr CacheTier kShared = CacheTier::kShared;

inline CachedStep step(std::size_t begin, std::size_t end, CacheTier tier = CacheTier::kRam) {
  return {{at(begin), at(end)}, tier, ByteCount{(end - begin) * 100}};
}

inline Restorable point(std::size_t where, CacheTier tier = CacheTier::kRam) {
  return {at(where), at(where), tier, ByteCount{1000}};
}

// Room for all, and state that must be restored; without `restorable` rows are enough.
inline PlanView roomy_view(std::size_t prompt_tokens, std::vector<Resident> residents, std::vector<CachedStep> cached,
                           std::optional<std::vector<Restorable>> restorable) {
  PlanView view;
  view.prompt_tokens = prompt_tokens;
  view.cells_total = view.cells_free = 1000;
  view.residents = std::move(residents);
  view.cached = std::move(cached);
  view.sequence_free = true;
  view.restore = RestoreMode::kAlways;
  view.needs_points = restorable.has_value();
  if (restorable) view.restorable = *std::move(restorable);
  return view;
}

inline std::string text(const Plan& plan) {
  static constexpr const char* kStarts[] = {"fresh", "in place", "fork", "wait"};
  std::string out = kStarts[static_cast<int>(plan.start)];
  if (plan.start == Start::kWait) return out;
  if (plan.start != Start::kFresh) out += " of " + std::to_string(plan.source.value());
  out += ", memory " + std::to_string(plan.from_memory.value());
  out += ", cache " + std::to_string(plan.restored_to.value());
  for (const SeqId seq : plan.leave) out += ", leaves " + std::to_string(seq.value());
  if (plan.point) out += ", point";
  if (plan.load_too_slow) out += ", too slow";
  return out;
}

inline std::string planned(const PlanView& view) { return text(make_plan(view)); }

}  // namespace kvkeep::policy
