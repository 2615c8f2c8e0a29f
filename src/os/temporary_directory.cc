#include "os/temporary_directory.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

namespace kvkeep::os {

Result<TemporaryDirectory> TemporaryDirectory::make(const std::string& prefix) {
  const char* named = std::getenv("TMPDIR");
  const std::string parent = named != nullptr && named[0] == '/' ? named : "/tmp";
  std::string path = (std::filesystem::path(parent) / (prefix + "XXXXXX")).string();
  if (::mkdtemp(path.data()) == nullptr) return io_error(path + ": " + std::strerror(errno));
  return TemporaryDirectory(std::move(path));
}

TemporaryDirectory::TemporaryDirectory(std::string path) : path_(std::move(path)) {}

TemporaryDirectory::TemporaryDirectory(TemporaryDirectory&& other) noexcept : path_(std::exchange(other.path_, {})) {}

TemporaryDirectory& TemporaryDirectory::operator=(TemporaryDirectory&& other) noexcept {
  if (this != &other) {
    remove();
    path_ = std::exchange(other.path_, {});
  }
  return *this;
}

TemporaryDirectory::~TemporaryDirectory() { remove(); }

void TemporaryDirectory::remove() {
  if (path_.empty()) return;
  std::error_code ignored;  // a destructor has nobody to tell
  std::filesystem::remove_all(path_, ignored);
  path_.clear();
}

}  // namespace kvkeep::os
