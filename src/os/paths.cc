#include "os/paths.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "os/file_stamp.h"

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

Result<FileStamp> stamp_of(const std::string& path) {
  const auto ns = [](const timespec& time) { return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; };
  TRY_ASSIGN(const struct stat info, look_at(path));
  return FileStamp{.inode = info.st_ino,
                   .size_bytes = static_cast<std::uint64_t>(info.st_size),
                   .modified_ns = ns(info.st_mtim),
                   .changed_ns = ns(info.st_ctim)};
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

Result<std::string> read_private_file(const std::string& path, std::size_t most_bytes) {
  struct Opened {
    explicit Opened(int number) : descriptor(number) {}
    Opened(const Opened&) = delete;
    Opened& operator=(const Opened&) = delete;
    ~Opened() {
      if (descriptor >= 0) ::close(descriptor);
    }
    const int descriptor;
  };
  const Opened file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info{};
  if (file.descriptor < 0 || ::fstat(file.descriptor, &info) != 0) return why_not(path);
  if (S_ISDIR(info.st_mode)) return invalid(path + " is a directory, and no file");
  if ((info.st_mode & (kOthersMayRead | kOthersMayWrite)) != 0) {
    return invalid(path + " may be read or written by others: chmod 600 it");
  }
  if (!is_trusted_owner(info.st_uid, ::geteuid())) {
    return invalid(path + " belongs to another user (number " + std::to_string(info.st_uid) +
                   "): copy it, or give it to the user that kvkeep runs as with chown");
  }
  std::string text(most_bytes + 1, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t come = ::read(file.descriptor, text.data() + size, text.size() - size);
    if (come < 0 && errno == EINTR) continue;
    if (come < 0) return why_not(path);
    if (come == 0) break;
    size += static_cast<std::size_t>(come);
  }
  if (size > most_bytes) return invalid(path + " is longer than " + std::to_string(most_bytes) + " bytes");
  text.resize(size);
  return text;
}

bool is_trusted_owner(std::uint32_t owner, std::uint32_t self) {
  constexpr std::uint32_t kRoot = 0;
  return owner == self || owner == kRoot;
}

namespace {

// The paths that exist: a program that leaves at once can remove them.
struct Existing {
  Mutex mutex;
  std::set<std::string> paths GUARDED_BY(mutex);
  bool closed GUARDED_BY(mutex) = false;
};

Existing& existing() {
  static Existing all;
  return all;
}

bool remove_tree(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  return !error && !std::filesystem::exists(path, error);
}

}  // namespace

Result<TemporaryDirectory> TemporaryDirectory::make(const std::string& prefix) {
  const char* named = std::getenv("TMPDIR");
  const std::string parent = named != nullptr && named[0] == '/' ? named : "/tmp";
  std::string path = (std::filesystem::path(parent) / (prefix + "XXXXXX")).string();
  const MutexLock lock(existing().mutex);
  if (existing().closed) return aborted(path + ": this program is leaving");
  if (::mkdtemp(path.data()) == nullptr) return io_error(path + ": " + std::strerror(errno));
  existing().paths.insert(path);
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
  remove_tree(path_);  // a destructor cannot report an error
  const MutexLock lock(existing().mutex);
  existing().paths.erase(path_);
  path_.clear();
}

void remove_all_temporary_directories() {
  constexpr int kTries = 100;
  const MutexLock lock(existing().mutex);
  existing().closed = true;
  for (int tries = 0; tries < kTries; ++tries) {
    // Fails while somebody still writes there.
    std::erase_if(existing().paths, remove_tree);
    if (existing().paths.empty()) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace kvkeep::os
