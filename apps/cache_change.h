#pragma once

// The commands of `kvkeep cache` that change a directory, and those that carry prefixes from one to another. All return
// the exit status.

#include "base/result.h"
#include "cache_flags.h"

namespace kvkeep::cli {

// Returns 1 if something that was to be removed is still there.
Result<int> run_cache_collect(const CacheCommandOptions& options, const std::string& root);
// Asks before it removes, if standard input is a terminal.
Result<int> run_cache_remove(const CacheCommandOptions& options, const std::string& root);

// Runs pin and unpin.
Result<int> run_cache_pins(const CacheCommandOptions& options, const std::string& root);

Result<int> run_cache_export(const CacheCommandOptions& options, const std::string& root);
Result<int> run_cache_import(const CacheCommandOptions& options, const std::string& root);

}  // namespace kvkeep::cli
