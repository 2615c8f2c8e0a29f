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

Result<std::uint32_t> owner(const std::string& path) {
  TRY_ASSIGN(const struct stat info, look_at(path));
  return info.st_uid;
}

Result<bool> is_own(const std::string& path) {
  TRY_ASSIGN(const std::uint32_t found, owner(path));
  return found == ::geteuid();
}

Result<bool> is_trusted(const std::string& path) {
  TRY_ASSIGN(const std::uint32_t found, owner(path));
  return is_trusted_owner(found, ::geteuid());
}

bool is_trusted_owner(std::uint32_t owner, std::uint32_t self) {
  constexpr std::uint32_t kRoot = 0;
  return owner == self || owner == kRoot;
}

}  // namespace kvkeep::os
