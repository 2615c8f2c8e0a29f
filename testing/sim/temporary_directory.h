#pragma once

// A test's directory, removed with all its contents.

#include <cstdlib>
#include <filesystem>
#include <string>

namespace kvkeep::sim {

// The parent of benchmarks' directories: $KVKEEP_BENCH_DIR, or the system's. Syncs cost nothing on a memory disk.
inline std::filesystem::path bench_directory() {
  const char* base = std::getenv("KVKEEP_BENCH_DIR");
  return base != nullptr ? std::filesystem::path(base) : std::filesystem::temp_directory_path();
}

class TemporaryDirectory {
 public:
  explicit TemporaryDirectory(const std::filesystem::path& parent = std::filesystem::temp_directory_path()) {
    std::string name = (parent / "kvkeep-XXXXXX").string();
    path_ = ::mkdtemp(name.data()) != nullptr ? name : std::string();
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  // Returns the path without a slash at its end.
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace kvkeep::sim
