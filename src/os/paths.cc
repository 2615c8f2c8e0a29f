#include "os/paths.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace kvkeep::os {
namespace {

Error why_not(const std::string& path) {
  const std::string message = path + ": " + std::strerror(errno);
  return errno == ENOENT || errno == ENOTDIR ? not_found(message) : io_error(message);
}

Result<struct stat> look_at(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) == 0) return info;
  return why_not(path);
}

}  // namespace

Result<std::string> user_cache_home() {
  // The XDG base directory specification: a relative value is invalid and ignored.
  const char* named = std::getenv("XDG_CACHE_HOME");
  if (named != nullptr && named[0] == '/') return std::string(named);
  const char* home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') return std::string(home) + "/.cache";
  return unsupported("no cache directory: neither XDG_CACHE_HOME nor HOME is set; name one with --kv-disk-dir");
}

Result<std::string> resolve_links(const std::string& path) {
  struct Free {
    void operator()(char* text) const { std::free(text); }
  };
  const std::unique_ptr<char, Free> resolved(::realpath(path.c_str(), nullptr));
  if (resolved) return std::string(resolved.get());
  return why_not(path);
}

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
