#pragma once

// One thin interface to files, so that the store in the server is the one that the fault simulation breaks
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

// The space of a whole file system.
struct Space {
  ByteCount free;  // how much an unprivileged process may still write
  ByteCount total;
};

// The most names that a listing returns: opening a directory that somebody filled stays bounded in time and memory.
inline constexpr std::size_t kMaxListedNames = 1'000'000;

// An open file. Not thread safe; the destructor closes.
class File {
 public:
  virtual ~File() = default;
  // Reads up to out.size() bytes at `offset`; fewer only at the end of the file.
  virtual Result<std::size_t> read_at(std::uint64_t offset, MutableByteSpan out) = 0;
  // Appends all bytes or fails; after a failure the file's end is undefined.
  virtual Status append(ByteSpan bytes) = 0;
  // Calls fdatasync. A failure is final for this file: its bytes must be taken as lost, even if a later sync succeeds.
  virtual Status sync() = 0;
  virtual Result<ByteCount> size() = 0;
};

// An advisory lock on a file, held until destroyed or the process dies.
class FileLock {
 public:
  virtual ~FileLock() = default;
  // Returns false if the file was removed or another one has its name: another process may hold that one's lock.
  virtual bool in_place() = 0;
};

// Thread safe. Paths are absolute or relative to the working directory.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  // Creates a file with mode 0600 for appending and reading; kInvalid if the name exists (O_EXCL).
  virtual Result<std::unique_ptr<File>> create(const std::string& path) = 0;
  // Opens a regular file for reading. kInvalid for anything else, links included, which are not followed (O_NOFOLLOW).
  virtual Result<std::unique_ptr<File>> open(const std::string& path) = 0;
  // Replaces `to` if it exists. Atomic for every reader. Open handles of `from` stay valid.
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  virtual Status remove(const std::string& path) = 0;  // a file, or a directory with nothing in it
  // Makes directories with mode 0700, parents included, and makes their names durable. Existing ones are fine.
  virtual Status make_directories(const std::string& path) = 0;
  // Lists names in no order, without "." and "..", at most kMaxListedNames. kInvalid if the directory is itself a link.
  virtual Result<std::vector<FileInfo>> list(const std::string& directory) = 0;
  // Makes created, renamed and removed names in the directory durable.
  virtual Status sync_directory(const std::string& directory) = 0;
  // Sets the modification time, which stores when a file was last used.
  virtual Status set_modified(const std::string& path, std::int64_t modified_ns) = 0;
  // kBusy if another process (or another FileLock of this one) holds the lock. Makes the file, which must stay there.
  virtual Result<std::unique_ptr<FileLock>> lock(const std::string& path) = 0;
  // Any number may share the lock. kBusy while lock() holds it, which in turn fails while any share is held.
  virtual Result<std::unique_ptr<FileLock>> lock_shared(const std::string& path) = 0;
  // Returns the space of the file system of `path`, which need not exist yet.
  virtual Result<Space> space(const std::string& path) = 0;
};

// The machine's file system; the process has one.
FileSystem& real_file_system();

// Physical bytes that count for a file of `size`: whole 4 KiB blocks plus one for the inode.
ByteCount physical_size(ByteCount size);

}  // namespace kvkeep::os
