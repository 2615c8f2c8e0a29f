#pragma once

// Shared by the commands of `kvkeep cache` and `kvkeep share`: finding the directory, reading it, seeing who else uses
// it.

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "cache_flags.h"
#include "inspect/view.h"
#include "os/file_system.h"
#include "output.h"

namespace kvkeep::cli {

// Returns --kv-disk-dir or its default, links resolved. kNotFound if there is none, kInvalid if another user owns it.
Result<std::string> cache_root(const CacheCommandOptions& options);
// Makes the directory. Returns false if it exists already.
Result<bool> make_cache(const CacheCommandOptions& options);
// Removes the directory that make_cache() made, if nothing was put into it.
void unmake_cache(const std::string& root);
// Returns the budget that kvkeep serve would give the directory.
Result<ByteCount> cache_budget(const CacheCommandOptions& options, const std::string& root);
// Reads the models whose fingerprint begins with --model. kNotFound if there is none.
Result<inspect::Forest> read_cache(const CacheCommandOptions& options, const std::string& root);
Status choose_models(inspect::CacheDirectory& directory, const std::string& fingerprint_begins);
// Returns the runs that the ids in `words` name. Errors: as PrefixIds::find.
Result<std::vector<inspect::IdTarget>> find_ids(const inspect::Forest& forest, const std::vector<std::string>& words);

// Locks the directory for a change if no server runs on it; a server that starts meanwhile waits for the lock. Returns
// null if a server runs on it, kIo if it cannot be locked.
Result<std::unique_ptr<os::FileLock>> hold_cache(const std::string& root);
// Tells the servers that run on the directory that it was changed: they look at its files within seconds.
void tell_servers(const std::string& root);

// Returns a wait of a moment, which is false after half a minute: time for a server to notice that room is asked for,
// to look through the directory and to evict.
std::function<bool()> pauses_for_room();

}  // namespace kvkeep::cli
