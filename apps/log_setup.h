#pragma once

// The log as the command line asks for it: standard error, and a file beside it.

#include "base/result.h"
#include "serve_options.h"

namespace kvkeep::cli {

// kInvalid: the log file cannot be written.
Status set_up_log(const LogOptions& options);

}  // namespace kvkeep::cli
