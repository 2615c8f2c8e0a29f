#include "os/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace kvkeep::os {

Result<AppendFile> AppendFile::open(const std::string& path) {
  // Opening a pipe without a reader would block here for ever; later writes may wait.
  Descriptor descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0600));
  if (descriptor.valid() && ::fcntl(descriptor.get(), F_SETFL, O_APPEND) == 0) {
    return AppendFile(std::move(descriptor), path);
  }
  const int code = errno;
  Error error = system_error("open", path);
  if (code == ENOENT || code == EACCES || code == ENXIO) error.kind = ErrorKind::kInvalid;  // the name is wrong
  return error;
}

bool AppendFile::moved_away() const {
  struct stat held{};
  struct stat named{};
  if (!descriptor_.valid() || ::fstat(descriptor_.get(), &held) != 0) return true;
  return ::stat(path_.c_str(), &named) != 0 || named.st_dev != held.st_dev || named.st_ino != held.st_ino;
}

Status AppendFile::reopen() {
  if (moved_away()) {
    TRY_ASSIGN(*this, open(path_));
  }
  return {};
}

Status AppendFile::append(std::string_view text) {
  TRY(reopen());
  struct stat before{};
  const bool regular = ::fstat(descriptor_.get(), &before) == 0 && S_ISREG(before.st_mode);
  while (!text.empty()) {
    const ssize_t count = uninterrupted([&] { return ::write(descriptor_.get(), text.data(), text.size()); });
    if (count < 0) {
      const Error error = system_error("write", path_);
      // Half a line would also spoil the next one. If this fails as well, nothing more can be done.
      if (regular && ::ftruncate(descriptor_.get(), before.st_size) != 0) descriptor_.close();
      return error;
    }
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

}  // namespace kvkeep::os
