#pragma once

// Google's Vertex AI starts a container with variables instead of flags, and asks it at the paths that they name.

#include "base/result.h"
#include "os/process.h"
#include "serve_options.h"

namespace kvkeep::cli {

// With AIP_MODE=PREDICTION the server listens at AIP_HTTP_PORT, and serves AIP_PREDICT_ROUTE (/predict) and
// AIP_HEALTH_ROUTE. Without that value nothing changes.
Status obey_vertex(const os::Environment& environment, ServeOptions& options);

}  // namespace kvkeep::cli
