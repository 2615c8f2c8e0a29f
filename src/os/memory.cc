#include "os/memory.h"

#include <cstdlib>  // defines __GLIBC__

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace kvkeep::os {

void return_freed_memory() {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

void keep_memory_returnable() {
#ifdef __GLIBC__
  // Setting either ends the learning. Pieces of this size are mapped on their own and unmapped when freed.
  // Segments of rows are smaller: those come and go all the time, and new pages cost more than old ones.
  constexpr int kMappedBytes = 4 << 20;
  constexpr int kKeptBytes = 8 << 20;  // free memory at the end of a heap
  ::mallopt(M_MMAP_THRESHOLD, kMappedBytes);
  ::mallopt(M_TRIM_THRESHOLD, kKeptBytes);
#endif
}

}  // namespace kvkeep::os
