#pragma once

#include <cstdint>

#include "base/result.h"

namespace kvkeep::os {

// Bytes that a process gave to write() and its kin so far, wherever they went: the kernel's count, not the program's
// own. What it sends over sockets (send()) is not in it. kUnsupported: the system does not say (no /proc, another
// user's process, or none of this number).
Result<std::uint64_t> bytes_written_by(int process_id);

}  // namespace kvkeep::os
