#include "os/unix_socket.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "os/threads.h"

namespace kvkeep::os {
namespace {

constexpr mode_t kOwnerOnly = 0600;
constexpr int kLockMs = 1'000;

Error cannot_listen(const std::string& path, const std::string& why) {
  return invalid("cannot listen on " + path + ": " + why);
}

Descriptor new_socket() { return Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

// Precondition: the path fits.
sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

const sockaddr* plain(const sockaddr_un& address) { return reinterpret_cast<const sockaddr*>(&address); }

// Two servers that start at one path take turns: else both could find the same abandoned file, and the later one would
// remove the socket of the earlier one. Others may hold the lock of a shared directory such as /tmp, so after a second
// the start goes on without it.
Descriptor lock_directory_of(const std::string& path) {
  const auto slash = path.find_last_of('/');
  const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  Descriptor held(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (held.valid()) wait_until(kLockMs, [&] { return ::flock(held.get(), LOCK_EX | LOCK_NB) == 0; });
  return held;
}

// Removes a socket file at which no process listens.
Status remove_abandoned(const std::string& path, const sockaddr_un& address) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0) return {};
  if (!S_ISSOCK(info.st_mode)) {
    return cannot_listen(path, "a file that is not a socket has this name; remove it or choose another --host");
  }
  const Descriptor probe = new_socket();
  const int reason = ::connect(probe.get(), plain(address), sizeof address) == 0 ? 0 : errno;
  if (reason == ENOENT) return {};
  if (reason != ECONNREFUSED) {
    const bool answers = reason == 0 || reason == EAGAIN;
    return busy("cannot listen on " + path + ": " +
                (answers ? "another server listens there; stop it or choose another --host" : std::strerror(reason)));
  }
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return cannot_listen(path,
                         std::string("the file of a server that is gone cannot be removed: ") + std::strerror(errno));
  }
  return {};
}

}  // namespace

Result<UnixListener> UnixListener::listen(const std::string& path, int backlog) {
  if (path.empty() || path.size() >= sizeof sockaddr_un{}.sun_path) {
    return cannot_listen(path, "a socket's path has at most " + std::to_string(sizeof sockaddr_un{}.sun_path - 1) +
                                   " bytes; choose a shorter one");
  }
  const sockaddr_un address = address_of(path);
  const Descriptor turn = lock_directory_of(path);
  TRY(remove_abandoned(path, address));
  Descriptor made = new_socket();
  // Linux gives the file the mode that the socket has when it is bound; chmod() would come a moment too late.
  const bool is_private = ::fchmod(made.get(), kOwnerOnly) == 0;
  if (!made.valid() || ::bind(made.get(), plain(address), sizeof address) != 0) {
    return cannot_listen(path, std::strerror(errno));
  }
  struct stat info{};
  const bool is_ready = (is_private || ::chmod(path.c_str(), kOwnerOnly) == 0) && ::lstat(path.c_str(), &info) == 0 &&
                        ::listen(made.get(), backlog) == 0;
  if (!is_ready) {
    const std::string why = std::strerror(errno);
    ::unlink(path.c_str());
    return cannot_listen(path, why);
  }
  return UnixListener(std::move(made), path, info.st_dev, info.st_ino);
}

UnixListener::UnixListener(UnixListener&& other) noexcept
    : descriptor_(std::move(other.descriptor_)),
      path_(std::exchange(other.path_, {})),
      device_(other.device_),
      number_(other.number_) {}

UnixListener::~UnixListener() {
  struct stat info{};
  if (path_.empty() || ::lstat(path_.c_str(), &info) != 0) return;
  if (info.st_dev == device_ && info.st_ino == number_) ::unlink(path_.c_str());
}

}  // namespace kvkeep::os
