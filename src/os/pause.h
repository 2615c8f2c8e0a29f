#pragma once

// Waiting for what another process does and nothing tells of. Not for anything within this one.

#include <chrono>
#include <thread>

namespace kvkeep::os {

inline void pause(std::chrono::milliseconds time) { std::this_thread::sleep_for(time); }

}  // namespace kvkeep::os
