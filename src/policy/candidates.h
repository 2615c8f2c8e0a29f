#pragma once

// What a plan chose from, and why each of it was taken or not: for the trace and for questions about the cache. Pure.

#include <string_view>
#include <vector>

#include "policy/plan.h"

namespace kvkeep::policy {

struct Candidate {
  enum class Kind {
    kResident,    // a sequence of the model's memory
    kRows,        // cached rows, a run of steps of one tier
    kRestorable,  // positions where the cache can put a sequence: a point, a whole state, windows
  } kind = Kind::kResident;
  enum class Verdict {
    kTaken,
    kNothingShared,  // it begins with another token
    kCannotStand,    // the resident's memory cannot be cut where the prompt leaves it, and no point of the cache helps
    kNoRows,         // the rows before it are not there
    kNoPoint,        // rows at whose end, or later, no sequence can be put
    kLastToken,      // only the prompt's last token lies there, which must be decoded anyway
    kInMemory,       // the model's memory gives as much
    kShorter,        // another one reaches further
    kAsFar,          // another one reaches as far and disturbs less
    kTooSlow,        // prefilling is faster than loading it
  } verdict = Verdict::kTaken;
  SeqId seq = {};       // kResident
  TokenRange run = {};  // tokens of the prompt it covers; of kRestorable: its first and its last position
  Position reach = {};  // where the request would begin with it; 0: nowhere
  bool on_disk = false;
  ByteCount bytes = {};
};
std::string_view to_string(Candidate::Verdict verdict);

// Residents in the view's order, then cached rows, then restorable positions, both ascending. Cost: as make_plan(), and
// ways to begin times cached steps.
std::vector<Candidate> candidates(const PlanView& view);

}  // namespace kvkeep::policy
