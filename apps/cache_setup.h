#pragma once

// The cache's tiers from the command line: where the disk tier lies, how much each may take, and what happens if the
// directory cannot be used (named: an error; the default one: a warning, and serving goes on without disk); and the
// engine, the key and the threads of the shared tier.

#include <memory>
#include <string>

#include "base/result.h"
#include "cache/cache.h"
#include "cache/shared_access.h"
#include "engine/engine.h"
#include "engine/llama/model_options.h"
#include "os/clock.h"
#include "os/file_system.h"
#include "serve_options.h"
#include "share/engines/make_engine.h"
#include "share/object_engine.h"
#include "share/shared_store.h"
#include "store/disk_store.h"
#include "weights_guard.h"

namespace kvkeep::cli {

// Returns --cache-ram, or a quarter of available memory, at most 8 GiB. Warns if --cache-ram is more than is available.
ByteCount ram_budget(const TierOptions& options);

// Returns --kv-disk-dir, or kvkeep in the user's cache home; kUnsupported if there is no such home.
Result<std::string> disk_directory(const TierOptions& options);
// Returns --kv-disk-space-mb, or a tenth of the free space, 1 to 64 GiB.
ByteCount disk_budget(const TierOptions& options, ByteCount free_space);
// Returns --kv-disk-reserve-mb, or a hundredth of the file system, at most 1 GiB.
ByteCount disk_reserve(const TierOptions& options, ByteCount total_space);
// Memory for sampled turns, in bytes. Their file has room within the budget of its own, four times as much.
ByteCount memory_for_turns(ByteCount budget);

// Returns the error that open_disk_tier() would return for a named directory, before minutes go into loading a model:
// makes the directory and tries its lock, which is free again on return. Other servers may use it.
Status check_disk_directory(const TierOptions& options, os::FileSystem& files);

struct DiskTier {
  std::unique_ptr<store::DiskStore> store;  // null: no disk tier; the log says why
  ByteCount budget = {};                    // disk_budget(): the store's own, and the room for sampled turns
  // An audit found stored state that is wrong: nothing of it may be used, and nothing stored anywhere, until somebody
  // has looked into it. `store` is null.
  bool distrusted = false;
  std::string directory = {};  // empty: no disk tier
};
// `guard`: null if the fingerprint tells all files apart.
Result<DiskTier> open_disk_tier(const TierOptions& options, const FingerprintHash& fingerprint, os::FileSystem& files,
                                os::Clock& clock, WeightsGuard* guard = nullptr);
// Returns the directory of facts about files: "" without a disk tier, or before its directory was made.
std::string root_of_facts(const TierOptions& tiers);
// Keeps the trials of memory classes there; null if there is no such place.
std::shared_ptr<engine::llama::KeptTrials> kept_trials(const TierOptions& tiers);
// Tells of state that a former version stored for the same model under another name.
void tell_of_former_state(const DiskTier& tier, const Result<FingerprintHash>& former);

// Opens the disk tier for the model of this engine, if its state can be stored, and tells of files that it cannot use.
Result<DiskTier> open_disk_of(engine::Engine& engine, const ServeOptions& options, WeightsGuard* guard);

// Returns the options of the cache for the model of this engine; `options` has those of the command line.
cache::CacheOptions cache_options(cache::CacheOptions options, engine::Engine& engine, ByteCount ram_budget,
                                  bool distrusted);

// ---- the shared tier ----

// Must outlive the cache that takes `setup`.
struct OpenedShare {
  std::unique_ptr<share::ShareThreads> threads;
  cache::SharedSetup setup;             // without a store if there is no shared tier
  share::SharedStore* store = nullptr;  // the same, for as long as the cache has it
};

// Connects to nothing yet. Errors: the URL is wrong, this build lacks what it needs, or a secret cannot be read.
Result<std::unique_ptr<share::ObjectEngine>> open_engine(const std::string& url, os::Clock& clock,
                                                         share::EngineUse use = share::EngineUse::kAll);
// Logs the consequences of using an engine without a share key.
void warn_without_key(const share::ObjectEngine& engine);

// The engine of --share, null without the flag. Errors name the flag: the URL is wrong, or this build lacks what it
// needs. An engine that does not answer is no error: it may come later.
Result<std::unique_ptr<share::ObjectEngine>> open_share_engine(const SharedTierOptions& options);
// `key` is the contents of the key file. With a `guard` the model's files are read now if their hash is not known.
// Opens nothing unless `may_share`: state must be cacheable and trusted.
Result<OpenedShare> open_share(std::unique_ptr<share::ObjectEngine> engine, const SharedTierOptions& options,
                               const std::string& key, const engine::Description& model, bool may_share,
                               WeightsGuard* guard = nullptr);

// Waits until a server that stops has published what it computed, for 3 seconds at most; afterwards nothing waits for
// the shared tier any more.
void await_publishing(share::SharedStore& store);

}  // namespace kvkeep::cli
