#pragma once

// Orders that the engine thread carries out between two model calls: about the conversation that ran at a place last
// (places.h; clients of llama-server know it as a slot), which is kept, so that it can be saved, or forgotten; and
// about cached state of a client's tenants, which is forgotten.

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "base/types.h"
#include "cache/catalog.h"

namespace kvkeep::cache {
class Cache;
}

namespace kvkeep::server {

class Places;
class Scheduler;
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

// Any thread. kBusy as Scheduler::ask(). Otherwise the sink gets exactly one on_outcome.
Status order(Scheduler& scheduler, const SlotOrder& order, std::shared_ptr<SlotSink> sink);
// The engine thread's part. Kept state is evicted last for a day, as Cache::keep says. Forgotten state leaves the
// model's memory and all tiers, except for beginnings that other conversations share. kBusy while a request runs there;
// kUnsupported: see Cache::forget.
Result<SlotOutcome> carry_out(const SlotOrder& order, Places& places, Sequences& sequences, cache::Cache& cache);

// Called once, on the engine thread; must return at once.
using OnCleared = std::function<void(Result<cache::Cleared>)>;
// Any thread. kBusy as Scheduler::ask(). Otherwise `done` is called once.
Status clear(Scheduler& scheduler, const cache::ClearScope& scope, OnCleared done);
// The engine thread's part. State that requests use goes when they release it. Conversations of the scope leave idle
// sequences and places as well. Errors as Cache::clear(); nothing is forgotten then.
Result<cache::Cleared> carry_out(const cache::ClearScope& scope, Places& places, Sequences& sequences,
                                 cache::Cache& cache);

}  // namespace kvkeep::server
