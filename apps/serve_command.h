#pragma once

// `kvkeep serve`: puts the rooms together and runs until SIGINT or SIGTERM.

#include "base/result.h"
#include "serve_options.h"

namespace kvkeep::cli {

// Returns after an orderly shutdown. Errors are one line that says what to change.
Status run_serve(const ServeOptions& options);

}  // namespace kvkeep::cli
