#pragma once

// The flags of `kvkeep serve` for requests that do not say how to sample. They are bound to `sampling`, which must
// outlive them.

#include <vector>

#include "flag_set.h"
#include "serve_options.h"

namespace kvkeep::cli {

std::vector<Flag> sampling_flags(SamplingDefaults& sampling);

}  // namespace kvkeep::cli
