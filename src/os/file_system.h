#pragma once

// Files behind one thin interface, so that the store the server links is the store the fault simulation breaks
// (testing/sim). Nothing above this room makes a file syscall.
//
// Semantics are POSIX's: bytes written are *seen* by later reads at once, *durable* (survive a power cut) only after
// sync(); a created, renamed or removed name is durable only after sync_directory(). Every call may fail with kIo,
// kNoSpace or kNotFound; short reads are reported, short writes are retried inside until an error.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace kvkeep::os {

struct FileInfo {
  std::string name;  // without directory
  ByteCount size;
  std::int64_t modified_ns = 0;  // nanoseconds since the epoch
  bool is_regular = false;       // false: directory, link, device...; links are never followed
  bool is_directory = false;     // a true directory, not a link to one
};

// Of a whole file system.
struct Space {
  ByteCount free;  // an unprivileged process may still write so much
  ByteCount total;
};

// Names a listing returns at most: opening a directory that somebody filled stays bounded in time and memory.
inline constexpr std::size_t kMaxListedNames = 1'000'000;

// An open file. Not thread safe; the destructor closes.
class File {
 public:
  virtual ~File() = default;
  // Reads up to out.size() bytes at offset; fewer only at the end of the file.
  virtual Result<std::size_t> read_at(std::uint64_t offset, MutableByteSpan out) = 0;
  // Appends all bytes or fails; after a failure the file's end is undefined.
  virtual Status append(ByteSpan bytes) = 0;
  // fdatasync. A failure is final for this file: its bytes must be taken as lost, also if a later sync succeeds.
  virtual Status sync() = 0;
  virtual Result<ByteCount> size() = 0;
};

// An advisory lock on a file, held until destroyed or the process dies.
class FileLock {
 public:
  virtual ~FileLock() = default;
  // False: the file was removed, or another one has its name, so that another process may hold a lock of that name.
  virtual bool in_place() = 0;
};

// Thread safe. Paths are absolute or relative to the working directory.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  // Creates a file with mode 0600 for appending and reading; fails with kInvalid if the name exists (O_EXCL).
  virtual Result<std::unique_ptr<File>> create(const std::string& path) = 0;
  // Opens a regular file for reading; links are not followed (O_NOFOLLOW): kInvalid for anything but a regular file.
  virtual Result<std::unique_ptr<File>> open(const std::string& path) = 0;
  // Replaces `to` if it exists. Atomic for every reader. Open handles of `from` stay valid.
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  virtual Status remove(const std::string& path) = 0;  // a file, or a directory with nothing in it
  // Makes directories with mode 0700, parents included, and makes their names durable. An existing one is fine.
  virtual Status make_directories(const std::string& path) = 0;
  // In no order, without "." and "..", at most kMaxListedNames. kInvalid: the directory is itself a link.
  virtual Result<std::vector<FileInfo>> list(const std::string& directory) = 0;
  // Makes names created, renamed or removed in it durable.
  virtual Status sync_directory(const std::string& directory) = 0;
  // Sets the modification time to `modified_ns` (recency of use lives there).
  virtual Status set_modified(const std::string& path, std::int64_t modified_ns) = 0;
  // kBusy if another process (or another FileLock of this one) holds it. Makes the file; nobody may remove it.
  virtual Result<std::unique_ptr<FileLock>> lock(const std::string& path) = 0;
  // Of the file system of `path`, which need not exist yet.
  virtual Result<Space> space(const std::string& path) = 0;
};

// The real one; the process has one.
FileSystem& real_file_system();

// Physical bytes a file of `size` is counted with: whole 4 KiB blocks plus one for the inode.
ByteCount physical_size(ByteCount size);

}  // namespace kvkeep::os
