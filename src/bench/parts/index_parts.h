#pragma once

#include <vector>

#include "bench/figures.h"
#include "os/clock.h"

namespace kvkeep::bench {

// A lookup of 100,000 tokens among 10,000 segments, and what the index takes per token beside its id. No errors.
std::vector<PartFigures> measure_index(std::size_t repetitions, os::Clock& clock);

}  // namespace kvkeep::bench
