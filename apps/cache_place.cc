#include "cache_place.h"

#include <fmt/format.h>

#include <chrono>

#include "cache_setup.h"
#include "os/paths.h"
#include "os/threads.h"
#include "store/layout.h"
#include "store/servers.h"

namespace kvkeep::cli {

Result<std::string> cache_root(const CacheCommandOptions& options) {
  TRY_ASSIGN(const std::string named, disk_directory(options.tiers));
  auto root = os::resolve_links(named);
  if (!root && root.error().kind == ErrorKind::kNotFound) {
    return not_found(
        fmt::format("{}: there is no such cache directory; name one with --kv-disk-dir, or start kvkeep "
                    "serve, which makes it",
                    named));
  }
  if (!root) return root;
  TRY_ASSIGN(const bool own, os::is_own(*root));
  if (!own) return invalid(*root + " belongs to another user; run this as that user");
  return root;
}

Result<bool> make_cache(const CacheCommandOptions& options) {
  TRY_ASSIGN(const std::string named, disk_directory(options.tiers));
  if (os::resolve_links(named)) return false;
  TRY(os::real_file_system().make_directories(named));
  return true;
}

void unmake_cache(const std::string& root) {
  const auto lock = hold_cache(root);
  if (!lock || *lock == nullptr) return;  // a server began to use it
  (void)os::real_file_system().remove(root + "/" + std::string(store::kLockName));
  (void)os::real_file_system().remove(root);
}

Result<ByteCount> cache_budget(const CacheCommandOptions& options, const std::string& root) {
  TRY_ASSIGN(const os::Space space, os::real_file_system().space(root));
  return disk_budget(options.tiers, space.free);
}

Status choose_models(inspect::CacheDirectory& directory, const std::string& fingerprint_begins) {
  if (fingerprint_begins.empty()) return {};
  std::erase_if(directory.models, [&](const inspect::ModelDirectory& model) {
    return !model.fingerprint.hex().starts_with(fingerprint_begins);
  });
  if (!directory.models.empty()) return {};
  return not_found("no model has a fingerprint that begins with '" + fingerprint_begins + "'");
}

Result<inspect::Forest> read_cache(const CacheCommandOptions& options, const std::string& root) {
  TRY_ASSIGN(inspect::CacheDirectory directory, inspect::read_directory(os::real_file_system(), root));
  TRY(choose_models(directory, options.fingerprint));
  return inspect::plant(std::move(directory));
}

Result<std::vector<inspect::IdTarget>> find_ids(const inspect::Forest& forest, const std::vector<std::string>& words) {
  std::vector<inspect::IdTarget> targets;
  for (const std::string& word : words) {
    TRY_ASSIGN(const inspect::IdTarget target, forest.ids.find(word));
    targets.push_back(target);
  }
  return targets;
}

Result<std::unique_ptr<os::FileLock>> hold_cache(const std::string& root) {
  auto lock = os::real_file_system().lock(root + "/" + std::string(store::kLockName));
  if (!lock && lock.error().kind == ErrorKind::kBusy) return std::unique_ptr<os::FileLock>();
  if (!lock) return lock;
  // Other servers may still run after the one that kept the budget stopped; one of them is about to take its place.
  TRY_ASSIGN(const std::size_t others,
             store::count_living(os::real_file_system(), root + "/" + std::string(store::kServersName)));
  if (others > 0) return std::unique_ptr<os::FileLock>();
  return lock;
}

void tell_servers(const std::string& root) {
  store::Servers servers(root + "/" + std::string(store::kServersName), os::real_file_system(), os::real_clock());
  (void)servers.tell_change().ok();
}

std::function<bool()> pauses_for_room() {
  return [pauses = 0]() mutable {
    constexpr std::chrono::milliseconds kRoomPause{100};
    constexpr int kMostRoomPauses = 300;
    os::pause(kRoomPause);
    return ++pauses < kMostRoomPauses;
  };
}

}  // namespace kvkeep::cli
