#include "os/permissions.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace kvkeep::os {

namespace {

Result<struct stat> look_at(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) == 0) return info;
  const std::string message = path + ": " + std::strerror(errno);
  return errno == ENOENT || errno == ENOTDIR ? not_found(message) : io_error(message);
}

}  // namespace

Result<std::uint32_t> permissions(const std::string& path) {
  TRY_ASSIGN(const struct stat info, look_at(path));
  return info.st_mode & 07777U;
}

Result<bool> is_own(const std::string& path) {
  TRY_ASSIGN(const struct stat info, look_at(path));
  return ::geteuid() == 0 || info.st_uid == ::geteuid();
}

}  // namespace kvkeep::os
