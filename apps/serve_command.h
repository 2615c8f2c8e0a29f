#pragma once

// `kvkeep serve`: connects the rooms and runs until SIGINT or SIGTERM.

#include "base/result.h"
#include "serve_options.h"

namespace kvkeep::cli {

// Returns after an orderly shutdown. Errors are one line that says what to change.
Status run_serve(const ServeOptions& options);

}  // namespace kvkeep::cli
