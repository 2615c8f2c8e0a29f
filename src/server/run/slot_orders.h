#pragma once

// Orders about a place (places.h), which clients of llama-server know as a slot: keep the conversation that ran there
// last, so that it can be saved, or forget it. Engine thread only.

#include <cstddef>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "base/types.h"

namespace kvkeep::cache {
class Cache;
}

namespace kvkeep::server {

class Places;
class Sequences;

struct SlotOrder {
  enum class Kind { kKeep, kForget } kind = Kind::kKeep;
  std::size_t slot = 0;       // below the number of places
  Tenant tenant = kNoTenant;  // the sender's: conversations of other tenants are as if they were not there
};

struct SlotOutcome {
  std::vector<TokenId> tokens = {};  // of the conversation; empty: there is none
  std::size_t forgotten = 0;         // of these, from the end on
};

// Receives the outcome. Called once, on the engine thread; must return at once.
class SlotSink {
 public:
  virtual ~SlotSink() = default;
  virtual void on_outcome(Result<SlotOutcome> outcome) = 0;
};

// Kept state is evicted last for a day, as Cache::keep says. What is forgotten leaves the model's memory and all tiers,
// except for beginnings that other conversations share. kBusy while a request runs there; kUnsupported: see
// Cache::forget.
Result<SlotOutcome> carry_out(const SlotOrder& order, Places& places, Sequences& sequences, cache::Cache& cache);

}  // namespace kvkeep::server
