#pragma once

// `kvkeep cache export` and `import`.

#include "base/result.h"
#include "cache_flags.h"

namespace kvkeep::cli {

// The exit status.
Result<int> run_cache_export(const CacheCommandOptions& options, const std::string& root);
Result<int> run_cache_import(const CacheCommandOptions& options, const std::string& root);

}  // namespace kvkeep::cli
