#pragma once

// `kvkeep replay`: reads recordings, plays them, prints and writes what was found.

#include "base/result.h"
#include "replay_flags.h"

namespace kvkeep::cli {

// The exit status: that of the signal that interrupted it, or 0. Requests that fail are told in the report and are no
// error. Errors: a file that cannot be read or understood, no server, nothing played.
Result<int> run_replay(const ReplayCommandOptions& options);

}  // namespace kvkeep::cli
