#pragma once

#include <string>

#include "bench/figures.h"

namespace kvkeep::bench {

// For a terminal, at most 120 columns: one line per request of a replayed session, at most 500 of them, and a total.
std::string to_request_table(const RunFigures& run);

}  // namespace kvkeep::bench
