#pragma once

// Helpers around system calls for the files of this room. Other rooms do not include it.

#include <cerrno>
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
  void close();

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
Error system_error(const char* call, const std::string& path);

}  // namespace kvkeep::os
