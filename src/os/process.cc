#include "os/process.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>  // defines __GLIBC__
#include <ctime>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace kvkeep::os {

int process_id() { return ::getpid(); }

ByteCount peak_memory() {
  struct rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return ByteCount{static_cast<std::uint64_t>(usage.ru_maxrss) << 10};
}

double cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

std::size_t raise_open_files_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const rlimit wanted{limit.rlim_max, limit.rlim_max};
  if (limit.rlim_cur < limit.rlim_max && ::setrlimit(RLIMIT_NOFILE, &wanted) == 0) limit = wanted;
  return static_cast<std::size_t>(std::min<rlim_t>(limit.rlim_cur, SIZE_MAX));  // RLIM_INFINITY is the largest value
}

void return_freed_memory() {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

void keep_memory_returnable() {
#ifdef __GLIBC__
  // Setting either ends the C library's learning. Pieces of this size are mapped by themselves and unmapped when freed.
  // Segments of rows are smaller: those come and go all the time, and new pages cost more than old ones.
  constexpr int kMappedBytes = 4 << 20;
  constexpr int kKeptBytes = 8 << 20;  // free memory at the end of a heap
  ::mallopt(M_MMAP_THRESHOLD, kMappedBytes);
  ::mallopt(M_TRIM_THRESHOLD, kKeptBytes);
#endif
}

bool errors_go_to_a_terminal() { return ::isatty(STDERR_FILENO) == 1; }
bool output_goes_to_a_terminal() { return ::isatty(STDOUT_FILENO) == 1; }
bool input_comes_from_a_terminal() { return ::isatty(STDIN_FILENO) == 1; }

}  // namespace kvkeep::os
