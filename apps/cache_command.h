#pragma once

// `kvkeep cache`: reads the directory, hands it to the room inspect, prints.

#include "base/result.h"
#include "cache_flags.h"

namespace kvkeep::cli {

// The exit status: 0; 1 if verify found anything wrong. Errors: the directory cannot be read, or what was asked for is
// not there.
Result<int> run_cache(const CacheCommandOptions& options);

}  // namespace kvkeep::cli
