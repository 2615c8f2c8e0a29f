#include "cache_change.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "cache_place.h"
#include "inspect/collect.h"
#include "inspect/pins.h"
#include "inspect/print/print.h"
#include "inspect/removal.h"
#include "os/clock.h"
#include "os/machine_info.h"
#include "store/layout.h"

namespace kvkeep::cli {
namespace {

using inspect::Removal;

int finish(const CacheCommandOptions& options, const inspect::RemovalReport& report) {
  print(options.json ? inspect::removal_json(report, options.dry) : inspect::removal_text(report, options.dry));
  return report.failed == 0 ? 0 : 1;
}

// Beside servers, unless all is ours.
inspect::RemovalReport carry_out(const CacheCommandOptions& options, const std::string& root, bool beside,
                                 const std::vector<Removal>& removals) {
  inspect::RemovalReport report = inspect::remove_all(options.dry ? nullptr : &os::real_file_system(), removals);
  if (!options.dry && beside) tell_servers(root);
  return report;
}

// Nobody to ask: what was typed holds.
bool agreed(const CacheCommandOptions& options, const std::vector<Removal>& removals) {
  if (options.yes || options.dry || !os::input_comes_from_a_terminal()) return true;
  std::fputs(inspect::removal_text(inspect::remove_all(nullptr, removals), true).c_str(), stderr);
  std::fputs("go on? [y/N] ", stderr);
  char answer[16] = {};
  if (std::fgets(answer, sizeof answer, stdin) == nullptr) return false;
  return answer[0] == 'y' || answer[0] == 'Y';
}

// Where no server would write it anew: the saved index lists token ids of what goes.
void add_indexes(const inspect::Forest& forest, std::vector<Removal>& removals) {
  std::vector<Removal> indexes;
  for (const inspect::ModelDirectory& model : forest.directory.models) {
    const bool touched = std::ranges::find(removals, model.path, &Removal::directory) != removals.end();
    if (!touched || !model.files.index) continue;
    const ByteCount bytes = os::physical_size(model.files.index->size);
    indexes.push_back({model.path, std::string(store::kIndexName), bytes, inspect::Why::kAdvisory});
  }
  removals.insert(removals.end(), indexes.begin(), indexes.end());
}

Result<std::vector<Removal>> asked_removals(const CacheCommandOptions& options, const inspect::Forest& forest) {
  const auto& models = forest.directory.models;
  if (options.words.empty() && models.size() > 1) {
    return invalid(
        fmt::format("{} models have a fingerprint that begins with '{}'", models.size(), options.fingerprint));
  }
  if (options.words.empty()) return inspect::removals_of_model(os::real_file_system(), models.front());
  TRY_ASSIGN(const auto targets, find_ids(forest, options.words));
  return inspect::removals_of(forest, targets);
}

}  // namespace

Result<int> run_cache_collect(const CacheCommandOptions& options, const std::string& root) {
  TRY_ASSIGN(inspect::Forest forest, read_cache(options, root));  // before a lock is made: it must be a cache
  TRY_ASSIGN(const auto lock, hold_cache(root));
  TRY_ASSIGN(forest, read_cache(options, root));
  inspect::CollectOptions collected;
  collected.now_ns = os::real_clock().wall_ns();
  collected.alone = lock != nullptr;
  collected.quarantine = options.quarantine;
  collected.most = options.to;
  std::vector<Removal> removals = inspect::collect(forest, collected);
  if (lock != nullptr) inspect::add_empty_models(os::real_file_system(), forest.directory, removals);
  return finish(options, carry_out(options, root, lock == nullptr, removals));
}

Result<int> run_cache_remove(const CacheCommandOptions& options, const std::string& root) {
  TRY_ASSIGN(inspect::Forest forest, read_cache(options, root));
  TRY_ASSIGN(std::vector<Removal> removals, asked_removals(options, forest));
  if (!agreed(options, removals)) return aborted("nothing was removed");
  TRY_ASSIGN(const auto lock, hold_cache(root));
  // A server may have gone on below it meanwhile: parents leave after all of their children.
  TRY_ASSIGN(forest, read_cache(options, root));
  TRY_ASSIGN(removals, asked_removals(options, forest));
  if (lock != nullptr && !options.words.empty()) add_indexes(forest, removals);
  if (lock != nullptr) inspect::add_empty_models(os::real_file_system(), forest.directory, removals);
  inspect::RemovalReport report = carry_out(options, root, lock == nullptr, removals);
  report.left = inspect::left_files(forest, removals, lock != nullptr);
  return finish(options, report);
}

Result<int> run_cache_pins(const CacheCommandOptions& options, const std::string& root) {
  TRY_ASSIGN(const inspect::Forest forest, read_cache(options, root));
  TRY_ASSIGN(const auto targets, find_ids(forest, options.words));
  const bool pin = options.action == CacheAction::kPin;
  TRY_ASSIGN(const std::size_t changed, inspect::change_pins(os::real_file_system(), forest, targets, pin));
  print(options.json ? inspect::pins_json(changed) : fmt::format("{} {}\n", pin ? "pinned" : "unpinned", changed));
  return 0;
}

}  // namespace kvkeep::cli
