#pragma once

// The HTTP server of `serve`, as flags and the machine allow it.

#include <memory>

#include "base/result.h"
#include "named_files.h"
#include "serve_options.h"
#include "server/http/http_server.h"

namespace kvkeep::cli {

// Listens. Raises this process's limit of open files, and has memory of large requests given back: before threads
// start.
Result<std::unique_ptr<server::HttpServer>> listen(const ServeOptions& options, const NamedFiles& files);

}  // namespace kvkeep::cli
