#pragma once

#include <cstddef>

namespace kvkeep::os {

// Lets this process open as many files and sockets as the system allows it (the soft limit becomes the hard one), and
// returns that number. Children inherit it.
std::size_t raise_open_files_limit();

}  // namespace kvkeep::os
