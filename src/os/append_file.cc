#include "os/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace kvkeep::os {

namespace {

Error system_error(const char* call, const std::string& path) {
  const int code = errno;
  std::string message = std::string(call) + " " + path + ": " + std::strerror(code);
  switch (code) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG: return no_space(std::move(message));
    case ENOENT:
    case EISDIR:
    case ENOTDIR:
    case EACCES:
    case ENXIO: return invalid(std::move(message));
    default: return io_error(std::move(message));
  }
}

}  // namespace

Result<AppendFile> AppendFile::open(const std::string& path) {
  // A pipe that nobody reads would block here for ever; afterwards writes may wait.
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0600);
  if (descriptor < 0) return system_error("open", path);
  AppendFile file(descriptor, path);
  if (::fcntl(descriptor, F_SETFL, O_APPEND) != 0) return system_error("open", path);
  return file;
}

AppendFile::AppendFile(AppendFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), path_(std::move(other.path_)) {}

AppendFile& AppendFile::operator=(AppendFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(path_, other.path_);
  return *this;
}

AppendFile::~AppendFile() { close(); }

void AppendFile::close() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

bool AppendFile::moved_away() const {
  struct stat held{};
  struct stat named{};
  if (descriptor_ < 0 || ::fstat(descriptor_, &held) != 0) return true;
  return ::stat(path_.c_str(), &named) != 0 || named.st_dev != held.st_dev || named.st_ino != held.st_ino;
}

Status AppendFile::append(std::string_view text) {
  if (moved_away()) {
    TRY_ASSIGN(*this, open(path_));
  }
  struct stat before{};
  const bool regular = ::fstat(descriptor_, &before) == 0 && S_ISREG(before.st_mode);
  while (!text.empty()) {
    const ssize_t count = ::write(descriptor_, text.data(), text.size());
    if (count >= 0) {
      text.remove_prefix(static_cast<std::size_t>(count));
      continue;
    }
    if (errno == EINTR) continue;
    const Error error = system_error("write", path_);
    // Half a line would spoil the next one too. If this fails as well, nothing more can be done.
    if (regular && ::ftruncate(descriptor_, before.st_size) != 0) close();
    return error;
  }
  return {};
}

}  // namespace kvkeep::os
