#pragma once

// `kvkeep replay`: reads recordings, plays them, then prints the results and writes them to files.

#include "base/result.h"
#include "replay_flags.h"

namespace kvkeep::cli {

// Returns the exit status: 0, or 128 + the signal that interrupted it. The report names requests that failed; these are
// no error. Errors: a file that cannot be read or parsed, no server, nothing played.
Result<int> run_replay(const ReplayCommandOptions& options);

}  // namespace kvkeep::cli
