#pragma once

// `kvkeep cache`: reads the directory, hands it to the room inspect, and prints the result.

#include "base/result.h"
#include "cache_flags.h"

namespace kvkeep::cli {

// Returns the exit status: 0, or 1 if verify found damage. Errors: the directory cannot be read, or a prefix or model
// that was named is not there.
Result<int> run_cache(const CacheCommandOptions& options);

}  // namespace kvkeep::cli
