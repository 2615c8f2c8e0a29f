// The FileSystem of the machine. Links are never followed at the last component, files are 0600, directories 0700.

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <span>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "os/descriptor.h"
#include "os/file_system.h"

namespace kvkeep::os {
namespace {

constexpr int kAlways = O_CLOEXEC | O_NOFOLLOW;
constexpr std::int64_t kSecondNs = 1'000'000'000;

Descriptor open_descriptor(const std::string& path, int flags, mode_t mode = 0) {
  return Descriptor(uninterrupted([&] { return ::openat(AT_FDCWD, path.c_str(), flags | kAlways, mode); }));
}

class RealFile final : public File {
 public:
  RealFile(Descriptor descriptor, std::string path) : descriptor_(std::move(descriptor)), path_(std::move(path)) {}

  Result<std::size_t> read_at(std::uint64_t offset, MutableByteSpan out) override {
    std::size_t done = 0;
    while (done < out.size()) {
      const ssize_t count = uninterrupted([&] {
        return ::pread(descriptor_.get(), out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
      });
      if (count < 0) return system_error("read", path_);
      if (count == 0) break;
      done += static_cast<std::size_t>(count);
    }
    return done;
  }

  Status append(ByteSpan bytes) override {
    while (!bytes.empty()) {
      const ssize_t count = uninterrupted([&] { return ::write(descriptor_.get(), bytes.data(), bytes.size()); });
      if (count < 0) return system_error("write", path_);
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
    return {};
  }

  Status sync() override {
    // No retry, EINTR included: a second fdatasync may report success for pages the first one lost.
    if (::fdatasync(descriptor_.get()) != 0) return system_error("sync", path_);
    return {};
  }

  Result<ByteCount> size() override {
    struct stat info{};
    if (::fstat(descriptor_.get(), &info) != 0) return system_error("stat", path_);
    return ByteCount{static_cast<std::uint64_t>(info.st_size)};
  }

 private:
  Descriptor descriptor_;
  std::string path_;
};

class RealFileLock final : public FileLock {
 public:
  RealFileLock(Descriptor descriptor, std::string path) : descriptor_(std::move(descriptor)), path_(std::move(path)) {}

  bool in_place() override {
    struct stat held{};
    struct stat named{};
    if (::fstat(descriptor_.get(), &held) != 0) return true;
    // Any other error does not show that the file is gone.
    if (::lstat(path_.c_str(), &named) != 0) return errno != ENOENT && errno != ENOTDIR;
    return held.st_dev == named.st_dev && held.st_ino == named.st_ino;
  }

 private:
  Descriptor descriptor_;  // closing it releases the lock; O_CLOEXEC keeps it out of child processes
  std::string path_;
};

std::string parent_of(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Status sync_directory_at(const std::string& directory) {
  // A user may name a directory through a link (a cache home on another disk), so that there is no O_NOFOLLOW here.
  const Descriptor descriptor(
      uninterrupted([&] { return ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (!descriptor.valid()) return system_error("open", directory);
  if (::fsync(descriptor.get()) != 0) return system_error("sync", directory);
  return {};
}

Status make_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0) return sync_directory_at(parent_of(path));
  const Error error = system_error("make directory", path);  // before the next call changes errno
  struct stat info{};
  if (::stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) return {};
    return invalid("make directory " + path + ": something else has that name");
  }
  return error;
}

FileInfo describe(const char* name, const struct stat& info) {
  return {.name = name,
          .size = ByteCount{static_cast<std::uint64_t>(info.st_size)},
          .modified_ns = info.st_mtim.tv_sec * kSecondNs + info.st_mtim.tv_nsec,
          .is_regular = S_ISREG(info.st_mode),
          .is_directory = S_ISDIR(info.st_mode)};
}

struct ListedName {
  ino_t inode = 0;
  std::string name;
};

Result<std::vector<ListedName>> read_names(DIR* stream, const std::string& directory) {
  std::vector<ListedName> found;
  while (found.size() < kMaxListedNames) {
    errno = 0;
    const dirent* entry = ::readdir(stream);
    if (entry == nullptr) {
      if (errno != 0) return system_error("list", directory);
      break;
    }
    if (std::strcmp(entry->d_name, ".") == 0 || std::strcmp(entry->d_name, "..") == 0) continue;
    found.push_back({entry->d_ino, entry->d_name});
  }
  return found;
}

// Returns the facts of the names that exist: one that vanished since readdir is no error.
std::vector<FileInfo> describe_all(int directory, std::span<const ListedName> names) {
  std::vector<FileInfo> found;
  found.reserve(names.size());
  for (const ListedName& listed : names) {
    struct stat info{};
    if (::fstatat(directory, listed.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    found.push_back(describe(listed.name.c_str(), info));
  }
  return found;
}

// Reads the facts in the order of the inodes on disk: in the order of names each would cost a seek, or a block of other
// inodes. For many names several threads ask, because a cold disk answers several requests at once in half the time.
Result<std::vector<FileInfo>> read_directory(DIR* stream, const std::string& directory) {
  constexpr std::size_t kNamesEach = 8192;
  constexpr std::size_t kMostThreads = 4;
  TRY_ASSIGN(std::vector<ListedName> names, read_names(stream, directory));
  std::ranges::sort(names, {}, &ListedName::inode);
  std::vector<std::vector<FileInfo>> parts(std::clamp<std::size_t>(names.size() / kNamesEach, 1, kMostThreads));
  const auto ask = [&](std::size_t part) {
    const std::size_t begin = names.size() * part / parts.size();
    const std::size_t end = names.size() * (part + 1) / parts.size();
    parts[part] = describe_all(::dirfd(stream), std::span(names).subspan(begin, end - begin));
  };
  {
    std::vector<std::jthread> others;
    for (std::size_t part = 1; part < parts.size(); ++part) {
      try {
        others.emplace_back(ask, part);
      } catch (const std::system_error&) {  // the process may have no more threads
        ask(part);
      }
    }
    ask(0);
  }
  for (std::size_t part = 1; part < parts.size(); ++part) {
    std::ranges::move(parts[part], std::back_inserter(parts.front()));
  }
  return std::move(parts.front());
}

Result<std::unique_ptr<FileLock>> lock_file(const std::string& path, int kind) {
  Descriptor descriptor = open_descriptor(path, O_RDWR | O_CREAT, 0600);
  if (!descriptor.valid()) return system_error("open", path);
  if (uninterrupted([&] { return ::flock(descriptor.get(), kind | LOCK_NB); }) != 0) {
    if (errno == EWOULDBLOCK) return busy("lock " + path + ": another process holds it");
    return system_error("lock", path);
  }
  return std::unique_ptr<FileLock>(std::make_unique<RealFileLock>(std::move(descriptor), path));
}

class RealFileSystem final : public FileSystem {
 public:
  Result<std::unique_ptr<File>> create(const std::string& path) override {
    Descriptor descriptor = open_descriptor(path, O_RDWR | O_CREAT | O_EXCL | O_APPEND, 0600);
    if (!descriptor.valid()) return system_error("create", path);
    return std::unique_ptr<File>(std::make_unique<RealFile>(std::move(descriptor), path));
  }

  Result<std::unique_ptr<File>> open(const std::string& path) override {
    Descriptor descriptor = open_descriptor(path, O_RDONLY | O_NONBLOCK);  // opening a pipe of that name must not block
    if (!descriptor.valid()) return system_error("open", path);
    struct stat info{};
    if (::fstat(descriptor.get(), &info) != 0) return system_error("stat", path);
    if (!S_ISREG(info.st_mode)) return invalid("open " + path + ": not a regular file");
    return std::unique_ptr<File>(std::make_unique<RealFile>(std::move(descriptor), path));
  }

  Status rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) return system_error("rename", from);
    return {};
  }

  Status remove(const std::string& path) override {
    if (::unlink(path.c_str()) == 0) return {};
    if (errno != EISDIR || ::rmdir(path.c_str()) != 0) return system_error("remove", path);
    return {};
  }

  Status make_directories(const std::string& path) override {
    for (std::size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
      TRY(make_directory(path.substr(0, slash)));
    }
    return path.empty() || path.back() == '/' ? Status{} : make_directory(path);
  }

  Result<std::vector<FileInfo>> list(const std::string& directory) override {
    Descriptor descriptor = open_descriptor(directory, O_RDONLY | O_DIRECTORY);
    if (!descriptor.valid()) return system_error("list", directory);
    DIR* stream = ::fdopendir(descriptor.get());
    if (stream == nullptr) return system_error("list", directory);
    descriptor.release();  // the stream owns it now
    auto found = read_directory(stream, directory);
    ::closedir(stream);
    return found;
  }

  Status sync_directory(const std::string& directory) override { return sync_directory_at(directory); }

  Status set_modified(const std::string& path, std::int64_t modified_ns) override {
    const timespec when{.tv_sec = modified_ns / kSecondNs, .tv_nsec = modified_ns % kSecondNs};
    const timespec times[2] = {when, when};
    if (::utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW) != 0) return system_error("touch", path);
    return {};
  }

  Result<std::unique_ptr<FileLock>> lock(const std::string& path) override { return lock_file(path, LOCK_EX); }
  Result<std::unique_ptr<FileLock>> lock_shared(const std::string& path) override { return lock_file(path, LOCK_SH); }

  Result<Space> space(const std::string& path) override {
    struct statvfs info{};
    std::string place = path;
    while (::statvfs(place.c_str(), &info) != 0) {
      if (errno != ENOENT || place == "/" || place == ".") return system_error("space of", path);
      place = parent_of(place);
    }
    const auto bytes = [&](std::uint64_t blocks) { return ByteCount{blocks * info.f_frsize}; };
    return Space{bytes(info.f_bavail), bytes(info.f_blocks)};
  }
};

}  // namespace

FileSystem& real_file_system() {
  static RealFileSystem files;
  return files;
}

ByteCount physical_size(ByteCount size) {
  constexpr std::uint64_t kBlock = 4096;
  return ByteCount{(size.value() + kBlock - 1) / kBlock * kBlock + kBlock};
}

}  // namespace kvkeep::os
