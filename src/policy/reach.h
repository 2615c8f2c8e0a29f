#pragma once

// How far a request can begin: which resident it starts from, and where the cache puts it from there. Part of the plan.
//
// A way to begin ends where the sequence stands: in memory alone at the end of what a resident shares with the prompt,
// if it stands there; else where the cache can put it. With rows alone that is anywhere; where points are needed, only
// in the runs of PlanView::restorable, up to which memory or cache have the rows. The longest way wins; then the one
// that takes most from memory, then the one that needs no point, then the source that is disturbed least, then the one
// used last. A way whose loading takes longer than prefilling what it saves beyond memory is left aside.

#include "policy/plan.h"

namespace kvkeep::policy {

struct Reach {
  const Resident* source = nullptr;  // null: an empty sequence
  Position from_memory;              // what the source gives
  Position to;                       // where the sequence stands after the restore
  bool point = false;                // ... by a point or window of the cache
  bool too_slow = false;             // a longer one was left aside
};

// Cost: O(w log w + w steps) for w = residents * runs of restorable positions.
Reach choose_reach(const PlanView& view);

// All ways to begin, best first, with `too_slow` for those whose loading takes longer than prefilling. For
// explanations: choose_reach() stops at the first that will do.
std::vector<Reach> all_reaches(const PlanView& view);

// Nothing but perhaps one token of the resident lies beyond what is reused of it.
inline bool extends(const Resident& resident, Position reused) { return resident.length <= reused + 1; }

}  // namespace kvkeep::policy
