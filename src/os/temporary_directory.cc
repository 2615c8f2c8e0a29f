#include "os/temporary_directory.h"

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <thread>
#include <utility>

#include "base/mutex.h"

namespace kvkeep::os {
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
