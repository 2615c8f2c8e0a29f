#include "os/resolve_links.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace kvkeep::os {

Result<std::string> resolve_links(const std::string& path) {
  struct Free {
    void operator()(char* text) const { std::free(text); }
  };
  const std::unique_ptr<char, Free> resolved(::realpath(path.c_str(), nullptr));
  if (resolved) return std::string(resolved.get());
  const std::string message = path + ": " + std::strerror(errno);
  return errno == ENOENT || errno == ENOTDIR ? not_found(message) : io_error(message);
}

}  // namespace kvkeep::os
