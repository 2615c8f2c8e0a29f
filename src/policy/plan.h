#pragma once

// The plan of one request: what to reuse from where, what to prefill, who must leave the model's memory first.
// Pure: a view in, a plan out; the scheduler executes it.
//
// Rules. At least one token is decoded, so at most n - 1 are reused. The longest prefix over memory and cache together
// wins: a resident sequence gives [0, p), cached rows continue it to q, where the sequence must be complete
// (cached_prefix.h says how that is found). Ties prefer memory, then the resident that can be used in place, then the
// one used last. A running sequence is never disturbed: its prefix is forked. An idle one is extended in place if the
// prompt goes on where it ends (p is its length, or one less). Otherwise its tail is at stake:
// - captured: it is forked where that costs no resident that was used later; else it is taken over in place (its tail
//   can be restored from the cache);
// - not captured: it is forked if a sequence and the cells can be had, and truncated in place if not.
// Cells are made before they are needed: idle residents leave, least recently used first, until what is restored,
// prefilled and `reply_room` fit; the source never leaves. Residents whose leaving frees nothing (all their cells are
// shared) leave only if nothing else helps.

#include <cstdint>
#include <optional>
#include <vector>

#include "base/types.h"
#include "policy/restore.h"

namespace kvkeep::policy {

// A sequence in the model's memory.
struct Resident {
  SeqId seq;
  Position length;                // tokens it holds
  Position common;                // of which this prompt shares the first `common`
  bool idle = false;              // false: a request runs on it
  bool captured = false;          // all its rows are in the cache, and its end is restorable
  std::uint32_t cells_owned = 0;  // cells that its leaving frees
  std::int64_t last_used_ns = 0;
  // Cut anywhere in [complete_from, length] it is complete; elsewhere a point is needed (see Restorable).
  Position complete_from = {};
};

// One step of the cached path, ascending from 0 without gap.
struct CachedStep {
  TokenRange range;
  CacheTier tier = CacheTier::kRam;  // in others it must be read first
  ByteCount bytes;
};

// A run of restorable positions (both ends included), once the rows before are there: the bytes are what must be
// restored last (a point, the last window), 0 where rows are all.
struct Restorable {
  Position first;
  Position last;
  CacheTier tier = CacheTier::kRam;
  ByteCount bytes;
  bool operator==(const Restorable&) const = default;
};

struct PlanView {
  std::size_t prompt_tokens = 0;  // n >= 1
  std::vector<Resident> residents;
  std::vector<CachedStep> cached;
  std::uint32_t cells_free = 0;
  bool sequence_free = false;  // a sequence that is neither idle nor running exists
  std::size_t reply_room = 0;  // cells wanted beyond the prompt
  std::uint32_t cells_total = 0;
  // Cells that captured idle residents may keep: all cells in use slow attention (16k of others: by a quarter at 1k).
  std::size_t idle_cells = SIZE_MAX;
  RestoreMode restore = RestoreMode::kAuto;
  Rates rates;
  // Models that need more than rows: the restorable positions of the cache, ascending.
  bool needs_points = false;
  std::vector<Restorable> restorable = {};
  bool forks_copy = false;  // each sequence has cells of its own
  // Runs of the prompt that the model takes in as one, ascending: nothing that is reused ends within one.
  std::vector<TokenRange> whole = {};
};

struct Plan {
  enum class Start {
    kFresh,    // an empty sequence
    kInPlace,  // take `source` over, truncated to `from_memory`
    kFork,     // share the first `from_memory` positions of `source`
    kWait,     // does not fit while others run: try again when one ends (nothing else of the plan is meaningful)
  } start = Start::kFresh;
  SeqId source;                // kInPlace, kFork
  Position from_memory;        // p: reused from the model's memory
  Position restored_to;        // q >= p: rows [p, q) come from the cache, and the sequence is then complete at q
  bool point = false;          // q is where a point or window of the cache must be restored last
  std::vector<SeqId> leave;    // idle residents to clear first, in this order
  bool load_too_slow = false;  // what is cached beyond q was left aside: prefilling is faster
  bool operator==(const Plan&) const = default;
};

// Cost: O(residents log residents + steps). The plan always exists; kWait only if some resident is not idle. Cells that
// leaving residents share with each other are not counted on while a request runs: then it may wait longer than needed.
Plan make_plan(const PlanView& view);

}  // namespace kvkeep::policy
