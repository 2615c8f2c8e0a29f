#pragma once

// What the commands of `kvkeep cache` have alike: which directory, what is in it, who else is there, printing.

#include <memory>
#include <string>

#include "base/result.h"
#include "cache_flags.h"
#include "inspect/view.h"
#include "os/file_system.h"

namespace kvkeep::cli {

void print(const std::string& text);  // to standard output

// --kv-disk-dir or that of kvkeep serve, behind links. kNotFound: nothing is there. kInvalid: another user's.
Result<std::string> cache_root(const CacheCommandOptions& options);
// Makes the directory. False: it is there.
Result<bool> make_cache(const CacheCommandOptions& options);
// Takes back what make_cache() made, if nobody put anything into it.
void unmake_cache(const std::string& root);
// Of the directory, as kvkeep serve would have it.
Result<ByteCount> cache_budget(const CacheCommandOptions& options, const std::string& root);
// All that is there, of the models whose fingerprint begins as asked for. kNotFound: none does.
Result<inspect::Forest> read_cache(const CacheCommandOptions& options, const std::string& root);
Status choose_models(inspect::CacheDirectory& directory, const std::string& fingerprint_begins);
// Where the words of a command lead. Errors: as PrefixIds::find.
Result<std::vector<inspect::IdTarget>> find_ids(const inspect::Forest& forest, const std::vector<std::string>& words);

// The directory for oneself while it is changed, if no server has it; one that starts meanwhile waits for a moment.
// Null: a server runs on it. kIo: it cannot be locked.
Result<std::unique_ptr<os::FileLock>> hold_cache(const std::string& root);
// Something was changed beside servers that run on it: they look at its files within seconds.
void tell_servers(const std::string& root);

}  // namespace kvkeep::cli
