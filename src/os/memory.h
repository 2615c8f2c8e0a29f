#pragma once

namespace kvkeep::os {

// Gives the system back what was freed. The C library keeps freed memory for the thread that used it: after a great
// piece of work on one of many threads, that memory serves none of the others. Takes milliseconds. Thread safe.
void return_freed_memory();

}  // namespace kvkeep::os
