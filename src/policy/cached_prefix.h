#pragma once

// The prefix of a prompt that memory and the cache give together: which resident the request begins on, and how far the
// cache takes it from there; and why each candidate for it was taken or not. Part of the plan.
//
// A way to begin ends where the sequence is complete: at the end of the part that a resident shares with the prompt, if
// the resident can be cut there; else at a restorable position. With only rows that is anywhere; where points are
// needed, only in the runs of PlanView::restorable, up to which memory or cache have the rows; never within a run of
// PlanView::whole. The longest way wins; then the one that takes most from memory (if a fork copies rows, those that
// RAM also has do not count), the one without a point, the source that is disturbed least, the one used last. A way
// that takes longer to load than it saves prefill beyond memory is left out.

#include <string_view>
#include <vector>

#include "policy/plan.h"

namespace kvkeep::policy {

struct CachedPrefix {
  const Resident* source = nullptr;  // null: an empty sequence
  Position from_memory;              // what the source gives
  Position to;                       // where the sequence ends after the restore
  bool point = false;                // ... by a point or window of the cache
  bool too_slow = false;             // a longer one was left aside
};

// Cost: O(w log w + w steps) for w = residents * runs of restorable positions.
CachedPrefix choose_prefix(const PlanView& view);

// All ways to begin, best first, with `too_slow` for those whose loading takes longer than prefilling. For
// explanations: choose_prefix() stops at the first that will do.
std::vector<CachedPrefix> all_prefixes(const PlanView& view);

// Returns true if at most one token of the resident lies after its reused part.
inline bool extends(const Resident& resident, Position reused) { return resident.length <= reused + 1; }

// A way that a plan could choose, for the trace and for questions about the cache.
struct Candidate {
  enum class Kind {
    kResident,    // a sequence of the model's memory
    kRows,        // cached rows, a run of steps of one tier
    kRestorable,  // restorable positions: a point, a whole state, windows
  } kind = Kind::kResident;
  enum class Verdict {
    kTaken,
    kNothingShared,  // it begins with another token
    kNotRestorable,  // the resident cannot be cut where the prompt leaves it, and no point of the cache helps
    kNoRows,         // the rows before it are not there
    kNoPoint,        // rows at whose end, or later, there is no restorable position
    kLastToken,      // only the prompt's last token lies there, which must be decoded anyway
    kInMemory,       // the model's memory gives as much
    kShorter,        // another one reaches further
    kAsFar,          // another one reaches as far and disturbs less
    kTooSlow,        // prefilling is faster than loading it
  } verdict = Verdict::kTaken;
  SeqId seq = {};       // kResident
  TokenRange run = {};  // tokens of the prompt it covers; of kRestorable: its first and its last position
  Position reach = {};  // the restorable position that it gives; 0: none
  CacheTier tier = CacheTier::kRam;
  ByteCount bytes = {};
};
std::string_view to_string(Candidate::Verdict verdict);

// Residents in the view's order, then cached rows, then restorable positions, both ascending. Cost: as make_plan(), and
// ways to begin times cached steps.
std::vector<Candidate> candidates(const PlanView& view);

}  // namespace kvkeep::policy
