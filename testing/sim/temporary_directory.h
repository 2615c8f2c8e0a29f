#pragma once

// A directory of a test, removed with all it holds.

#include <cstdlib>
#include <filesystem>
#include <string>

namespace kvkeep::sim {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "kvkeep-XXXXXX").string();
    path_ = ::mkdtemp(name.data()) != nullptr ? name : std::string();
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  // Without a slash at its end.
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace kvkeep::sim
