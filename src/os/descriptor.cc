#include "os/descriptor.h"

#include <unistd.h>

#include <cstring>

namespace kvkeep::os {

void Descriptor::close() {
  if (valid()) ::close(release());  // never retried: on Linux the number is free even after EINTR
}

Error system_error(const char* call, const std::string& path) {
  const int code = errno;
  std::string message = std::string(call) + " " + path + ": " + std::strerror(code);
  switch (code) {
    case ENOENT: return not_found(std::move(message));
    case ENOSPC:
    case EDQUOT:
    case EFBIG: return no_space(std::move(message));
    case EEXIST:
    case ELOOP:
    case ENOTDIR:
    case EISDIR: return invalid(std::move(message));
    default: return io_error(std::move(message));
  }
}

}  // namespace kvkeep::os
