#include "os/permissions.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>

namespace kvkeep::os {

Result<std::uint32_t> permissions(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) == 0) return info.st_mode & 07777U;
  const std::string message = path + ": " + std::strerror(errno);
  return errno == ENOENT || errno == ENOTDIR ? not_found(message) : io_error(message);
}

}  // namespace kvkeep::os
