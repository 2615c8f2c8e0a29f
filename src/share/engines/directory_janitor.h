#pragma once

// The janitor of a directory of objects: removes files that outlived their time and, while they take more room than
// they may, those that were used longest ago. It holds a lock meanwhile, so that one of the servers does it.
//
// A directory on a NAS may have a hundred thousand files, of which each is listed and removed by a round trip. So a
// sweep goes on in portions, between which its server publishes.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/types.h"
#include "os/clock.h"
#include "os/file_system.h"

namespace kvkeep::share {

struct StoredFile {
  std::string path;
  ByteCount size;
  std::int64_t used_ns = 0;
};
// Files in the folders of `root` that objects lie in, "<root>/<space>/<folder>". Folders that cannot be listed are
// passed over.
std::vector<std::string> object_folders(os::FileSystem& files, const std::string& root);
void add_files(os::FileSystem& files, const std::string& folder, std::vector<StoredFile>& stored);

inline constexpr std::string_view kTemporarySuffix = ".tmp";

// Thread safe.
class DirectoryJanitor {
 public:
  // Without a limit, objects take at most half of what they and the free space are together.
  DirectoryJanitor(std::string root, std::optional<ByteCount> limit, os::FileSystem& files, os::Clock& clock)
      : root_(std::move(root)), limit_(limit), files_(files), clock_(clock) {}

  // Returns true if a sweep is under way, or the last one began a while ago.
  bool has_work() const EXCLUDES(mutex_);
  // Does a step of a sweep, and further ones until `until_ns`. A step lists or removes one thing.
  void go_on(std::int64_t ttl_s, std::int64_t until_ns) EXCLUDES(mutex_);
  // Most bytes of all objects, of which these are used.
  ByteCount limit(ByteCount used) const;

 private:
  struct Sweep {
    std::unique_ptr<os::FileLock> lock;
    std::vector<std::string> folders;  // to be listed
    std::vector<StoredFile> stored = {};
    bool sorted = false;
    std::size_t next = 0;  // of the files, once they are sorted
    ByteCount used = {};
    ByteCount most = {};
  };
  void begin() REQUIRES(mutex_);
  void sort() REQUIRES(mutex_);
  // Returns false if nothing is left to do.
  bool step(std::int64_t ttl_s) REQUIRES(mutex_);

  const std::string root_;
  const std::optional<ByteCount> limit_;
  os::FileSystem& files_;
  os::Clock& clock_;
  mutable Mutex mutex_;
  std::optional<Sweep> sweep_ GUARDED_BY(mutex_);            // under way
  std::optional<std::int64_t> begun_ns_ GUARDED_BY(mutex_);  // the last one
};

}  // namespace kvkeep::share
