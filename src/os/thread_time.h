#pragma once

#include <cstdint>

namespace kvkeep::os {

// CPU time that the calling thread has used, user and system; nanoseconds since it began.
std::int64_t thread_cpu_ns();

}  // namespace kvkeep::os
