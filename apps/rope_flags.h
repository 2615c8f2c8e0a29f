#pragma once

// The flags of `kvkeep serve` that say how positions are scaled. They are bound to `rope`, which must outlive them.

#include <vector>

#include "flag_set.h"
#include "serve_options.h"

namespace kvkeep::cli {

std::vector<Flag> rope_flags(RopeOptions& rope);

}  // namespace kvkeep::cli
