#pragma once

// A Unix socket that listens: clients on this machine connect to a file instead of an address and a port. Sockets in
// Linux's abstract name space, which any local user may connect to, are not made.

#include <sys/types.h>

#include <string>

#include "base/result.h"
#include "os/descriptor.h"

namespace kvkeep::os {

// Owns the socket until release(), and the file until its end. Move-only; not thread safe.
class UnixListener {
 public:
  // Binds and listens. The file has mode 0600 from its first moment on: only this user and root can connect. A socket
  // file of a server that was killed is replaced. kBusy if a server listens at `path`; kInvalid if something else has
  // that name, the path is too long, or no file can be made there.
  static Result<UnixListener> listen(const std::string& path, int backlog);

  UnixListener(UnixListener&& other) noexcept;
  UnixListener& operator=(UnixListener&&) = delete;
  // Removes the file, unless another server has replaced it by its own.
  ~UnixListener();

  // Hands over the listening descriptor. The file stays until the destructor.
  int release() { return descriptor_.release(); }

 private:
  UnixListener(Descriptor descriptor, std::string path, dev_t device, ino_t number)
      : descriptor_(std::move(descriptor)), path_(std::move(path)), device_(device), number_(number) {}

  Descriptor descriptor_;
  std::string path_;  // empty: moved from
  dev_t device_ = 0;  // device_ and number_ identify the file
  ino_t number_ = 0;
};

}  // namespace kvkeep::os
