#pragma once

namespace kvkeep::os {

// Gives the system back what was freed. The C library keeps freed memory for the thread that used it: after a great
// piece of work on one of many threads, that memory serves none of the others. Takes milliseconds. Thread safe.
void return_freed_memory();

// Makes the C library give large pieces of memory back as soon as they are freed. Else it learns from the first one
// that such pieces come often, keeps later ones, and a server that was sent a few large bodies stays as large as they
// were. To be called at start, before threads allocate.
void keep_memory_returnable();

}  // namespace kvkeep::os
