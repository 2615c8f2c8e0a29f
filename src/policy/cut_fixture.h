#pragma once

// For tests of cuts: a plan as one line of text, and a prompt that many of them cut.

#include <functional>
#include <optional>
#include <string>

#include "policy/cut.h"
#include "policy/numbers_fixture.h"

namespace kvkeep::policy {

using Cutter = std::function<CutPlan(const CutView&)>;

inline std::string text(const std::optional<Position>& position) {
  return position ? std::to_string(position->value()) : "none";
}

inline std::string text(const CutPlan& plan) {
  std::string out;
  for (const Cut& cut : plan.cuts) {
    out += std::string(cut.in_ram ? "fine " : "") + std::string(to_string(cut.reason)) + " " + text(cut.at) + "; ";
  }
  for (const Position position : plan.leave) out += "leaves " + text(position) + "; ";
  if (plan.cold_skipped) out += "cold skipped; ";
  if (plan.awaited) out += "awaits " + text(plan.awaited) + "; ";
  return out;
}

inline std::string cuts(const CutView& view) { return text(plan_cuts(view)); }

// A system prompt up to 870, one user message, the generation prompt of 5 tokens.
inline CutView classifier() { return {{}, 960, {positions({870}), {}, positions({868, 955}), at(955)}, {}, {}, {}}; }

}  // namespace kvkeep::policy
