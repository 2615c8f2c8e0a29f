#pragma once

// Helpers around system calls for the files of this room. Other rooms do not include it.

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/result.h"

namespace kvkeep::os {

// Owns a file descriptor; a negative number means none.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() { close(); }
  int get() const { return number_; }
  bool valid() const { return number_ >= 0; }
  int release() { return std::exchange(number_, -1); }
  void close() {
    if (valid()) ::close(release());  // never retried: on Linux the number is free even after EINTR
  }

 private:
  int number_;
};

// Retries a call that a signal interrupted.
template <typename Call>
auto uninterrupted(Call call) {
  auto result = call();
  while (result == -1 && errno == EINTR) result = call();
  return result;
}

// The error of a call that just set errno, of the kind that tells the caller what to do.
inline Error system_error(const char* call, const std::string& path) {
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
