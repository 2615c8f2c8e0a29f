#pragma once

// A second process's view of a simulated disk: its operations work, are not counted, and meet no faults. Its handles
// and locks outlive the first process, and the first one's outlive it.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "testing/sim/sim_file_system.h"

namespace kvkeep::sim {

// Not thread safe. At most one at a time; useless after die() or a power cut: make another.
class SimBystander final : public os::FileSystem {
 public:
  explicit SimBystander(SimFileSystem& files);
  // The process dies; all that it wrote is still seen. Its locks are gone.
  void die();
  // The process dies before the operation after this many.
  void die_after(std::uint64_t operations) { operations_left_ = operations; }
  bool dead() const;

  Result<std::unique_ptr<os::File>> create(const std::string& path) override;
  Result<std::unique_ptr<os::File>> open(const std::string& path) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status remove(const std::string& path) override;
  Status make_directories(const std::string& path) override;
  Result<std::vector<os::FileInfo>> list(const std::string& directory) override;
  Status sync_directory(const std::string& directory) override;
  Status set_modified(const std::string& path, std::int64_t modified_ns) override;
  Result<std::unique_ptr<os::FileLock>> lock(const std::string& path) override;
  Result<std::unique_ptr<os::FileLock>> lock_shared(const std::string& path) override;
  Result<os::Space> space(const std::string& path) override;

 private:
  template <typename Call>
  auto act(Call call) -> decltype(call());

  SimFileSystem& files_;
  const std::uint64_t boot_;
  std::optional<std::uint64_t> operations_left_;
};

}  // namespace kvkeep::sim
