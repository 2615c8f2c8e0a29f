#pragma once

// The shared tier from outside of the cache: how a cache is given it, and what it is asked about a prompt (its parts
// are publishing.h and seeking.h); and what a cache tells of a prompt without a lease.

#include <functional>
#include <memory>
#include <vector>

#include "base/hash.h"
#include "base/types.h"
#include "os/executor.h"
#include "policy/cut.h"

namespace kvkeep::share {
class SharedStore;
struct ShareCounters;
}  // namespace kvkeep::share

namespace kvkeep::cache {

// The shared tier and the threads of its work, as a cache is given them. The executors must outlive the cache. The
// reader and the searcher may have several threads each: loads, and look-ups, then go on side by side.
struct SharedSetup {
  std::shared_ptr<share::SharedStore> store = {};  // null: there is no shared tier
  os::Executor* worker = nullptr;                  // the store's own
  os::Executor* prober = nullptr;                  // of the store as well; null: the worker probes
  os::Executor* reader = nullptr;                  // loads state
  std::vector<os::Executor*> helpers = {};         // load ahead of the reader; none: it loads all
  os::Executor* searcher = nullptr;                // looks prompts up; apart, so that no look-up waits for a load
  bool publishes = true;                           // as ShareOptions::mode says
};

// A prompt to be looked up in the shared tier.
struct SeekOrder {
  std::vector<TokenId> prompt;
  policy::PromptMarkers markers;
  Tenant tenant = kNoTenant;
  // Called on the searcher when the look-up's turn has come. Returns false if nobody waits for the answer any more.
  std::function<bool()> begins;
};

struct SeekResult {
  bool asked = false;   // the shared tier was asked: enough was unknown here, and it was well
  Position found = {};  // the end of what is known now and was not before; 0: nothing more is
  double ms = 0;        // that the shared tier took
};

// The longest path of a prompt whose rows some tier has: see Cache::stored.
struct StoredPrefix {
  Position rows;        // their end
  Position restorable;  // the last position to which a sequence can be restored by them
  std::size_t ram = 0;  // tokens by the fastest tier that has their rows
  std::size_t disk = 0;
  std::size_t shared = 0;
};

}  // namespace kvkeep::cache
