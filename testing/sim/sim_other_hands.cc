// Reads and changes of the simulated disk by tests: no operations.

#include "testing/sim/sim_file_system.h"

namespace kvkeep::sim {

std::uint64_t SimFileSystem::physical_bytes(const std::string& except) const {
  const std::string left_out = except + "/";
  std::uint64_t total = 0;
  for (const auto& [path, inode] : seen_) {
    if (!except.empty() && path.starts_with(left_out)) continue;
    total += os::physical_size(ByteCount{inode->seen.size()}).value();
  }
  return total;
}

std::vector<std::string> SimFileSystem::paths() const {
  std::vector<std::string> found;
  for (const auto& [path, inode] : seen_) found.push_back(path);
  return found;
}

std::optional<std::vector<std::byte>> SimFileSystem::contents(const std::string& path) const {
  const auto found = seen_.find(path);
  if (found == seen_.end()) return std::nullopt;
  return found->second->seen;
}

std::optional<ByteCount> SimFileSystem::seen_size(const std::string& path) const {
  const auto found = seen_.find(path);
  if (found == seen_.end()) return std::nullopt;
  return ByteCount{found->second->seen.size()};
}

void SimFileSystem::remove_tree(const std::string& directory) {
  const auto below = [&](const std::string& path) { return path == directory || path.starts_with(directory + "/"); };
  std::erase_if(seen_, [&](const auto& named) { return below(named.first); });
  std::erase_if(durable_, [&](const auto& named) { return below(named.first); });
  std::erase_if(unsynced_, [&](const Change& change) { return below(change.removed + change.added); });
  std::erase_if(directories_, below);
}

void SimFileSystem::plant(const std::string& path, std::vector<std::byte> bytes) {
  auto inode = std::make_shared<Inode>();
  inode->seen = inode->durable = std::move(bytes);
  inode->modified_ns = ++tick_ns_;
  seen_[path] = durable_[path] = inode;
}

}  // namespace kvkeep::sim
