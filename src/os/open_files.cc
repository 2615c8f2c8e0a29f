#include "os/open_files.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstdint>

namespace kvkeep::os {

std::size_t raise_open_files_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const rlimit wanted{limit.rlim_max, limit.rlim_max};
  if (limit.rlim_cur < limit.rlim_max && ::setrlimit(RLIMIT_NOFILE, &wanted) == 0) limit = wanted;
  return static_cast<std::size_t>(std::min<rlim_t>(limit.rlim_cur, SIZE_MAX));  // RLIM_INFINITY is the largest value
}

}  // namespace kvkeep::os
