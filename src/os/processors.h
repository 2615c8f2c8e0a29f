#pragma once

namespace kvkeep::os {

// Physical cores this process may run on, at least 1. Two hyper-threads of a core count once: matrix products gain
// nothing from the second.
unsigned core_count();

}  // namespace kvkeep::os
