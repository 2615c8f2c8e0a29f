#pragma once

// Flags of llama-server and ds4-server that users may pass from habit and that `serve` refuses. Taking one and doing
// nothing would give other results than asked for, without a word.

#include <vector>

#include "flag_set.h"

namespace kvkeep::cli {

std::vector<RefusedFlag> refused_serve_flags();

}  // namespace kvkeep::cli
