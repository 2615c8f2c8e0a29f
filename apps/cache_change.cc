#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "cache_place.h"
#include "commands.h"
#include "inspect/archive.h"
#include "inspect/model_notes.h"
#include "inspect/print/print.h"
#include "inspect/removal.h"
#include "os/clock.h"
#include "os/machine.h"
#include "os/paths.h"
#include "os/process.h"
#include "output.h"
#include "store/layout.h"

namespace kvkeep::cli {
namespace {

using inspect::Removal;

// Without a terminal nobody can be asked: the command itself is the consent, but only to the conversations that it
// names.
Status check_consent(const CacheCommandOptions& options, std::uint64_t others) {
  if (others == 0 || options.yes || options.dry || os::input_comes_from_a_terminal()) return {};
  return invalid(fmt::format(
      "nothing was removed: {} that no id names {} one of these lines before its end, and would be removed "
      "with it: pass --yes to remove them all, --dry-run to see how much that is",
      others == 1 ? "a conversation" : fmt::format("{} conversations", others), others == 1 ? "leaves" : "leave"));
}

int finish(const CacheCommandOptions& options, const inspect::RemovalReport& report) {
  print(options.json ? inspect::removal_json(report, options.dry) : inspect::removal_text(report, options.dry));
  return report.failed == 0 ? 0 : 1;
}

// `beside`: servers run on the directory, and are notified to look at it again.
inspect::RemovalReport carry_out(const CacheCommandOptions& options, const std::string& root, bool beside,
                                 const std::vector<Removal>& removals) {
  inspect::RemovalReport report = inspect::remove_all(options.dry ? nullptr : &os::real_file_system(), removals);
  if (!options.dry && beside) tell_servers(root);
  return report;
}

// Asks only if a person can answer.
bool agreed(const CacheCommandOptions& options, const std::vector<Removal>& removals, std::uint64_t others) {
  if (options.yes || options.dry || !os::input_comes_from_a_terminal()) return true;
  inspect::RemovalReport report = inspect::remove_all(nullptr, removals);
  report.others = others;
  print_error(inspect::removal_text(report, true));
  print_error("remove these? [y/N] ");
  char answer[16] = {};
  if (std::fgets(answer, sizeof answer, stdin) == nullptr) return false;
  return answer[0] == 'y' || answer[0] == 'Y';
}

// A saved index lists token ids of removed segments, and with no server running nothing rewrites it: remove it too.
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

std::vector<inspect::IdTarget> all_runs(const inspect::Forest& forest) {
  std::vector<inspect::IdTarget> runs;
  for (std::size_t model = 0; model < forest.trees.size(); ++model) {
    for (std::size_t run = 0; run < forest.trees[model].runs.size(); ++run) runs.push_back({model, run});
  }
  return runs;
}

// The servers on the directory grant the room for the import.
Status take_part(inspect::Guest& guest, inspect::ImportOptions& import) {
  TRY(guest.join());
  import.own_mark = guest.own_mark();
  import.beside_servers = true;
  import.reserve = [&guest](ByteCount bytes) { return guest.reserve(bytes, pauses_for_room()); };
  return {};
}

Error with_name(const std::string& name, const Error& error) { return {error.kind, name + ": " + error.message}; }

}  // namespace

Result<int> run_cache_collect(const CacheCommandOptions& options, const std::string& root) {
  TRY_ASSIGN(inspect::Forest forest, read_cache(options, root));  // first: `root` must be a cache
  TRY_ASSIGN(const auto lock, hold_cache(root));
  TRY_ASSIGN(forest, read_cache(options, root));
  inspect::CollectOptions collected;
  collected.now_ns = os::real_clock().wall_ns();
  collected.alone = lock != nullptr;
  collected.quarantine = options.quarantine;
  collected.most = options.to;
  std::vector<Removal> removals = inspect::collect(forest, collected);
  std::vector<std::unique_ptr<os::FileLock>> unused;
  if (lock != nullptr) unused = inspect::add_empty_models(os::real_file_system(), forest.directory, removals);
  return finish(options, carry_out(options, root, lock == nullptr, removals));
}

Result<int> run_cache_remove(const CacheCommandOptions& options, const std::string& root) {
  TRY_ASSIGN(inspect::Forest forest, read_cache(options, root));
  TRY_ASSIGN(std::vector<Removal> removals, asked_removals(options, forest));
  TRY_ASSIGN(const auto named, find_ids(forest, options.words));
  const std::uint64_t others = inspect::other_conversations(forest, named);
  TRY(check_consent(options, others));
  if (!agreed(options, removals, others)) return aborted("nothing was removed");
  TRY_ASSIGN(const auto lock, hold_cache(root));
  // A server may have continued a prefix meanwhile: look again, since parents leave after all of their children.
  TRY_ASSIGN(forest, read_cache(options, root));
  TRY_ASSIGN(removals, asked_removals(options, forest));
  TRY_ASSIGN(const auto named_now, find_ids(forest, options.words));
  if (!options.yes && inspect::other_conversations(forest, named_now) > others) {
    return aborted("nothing was removed: another conversation continues one of these lines now; try again");
  }
  if (lock != nullptr && !options.words.empty()) add_indexes(forest, removals);
  std::vector<std::unique_ptr<os::FileLock>> unused;
  if (lock != nullptr) unused = inspect::add_empty_models(os::real_file_system(), forest.directory, removals);
  inspect::RemovalReport report = carry_out(options, root, lock == nullptr, removals);
  report.left = inspect::left_files(forest, removals, lock != nullptr);
  report.others = others;
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

Result<int> run_cache_export(const CacheCommandOptions& options, const std::string& root) {
  TRY_ASSIGN(const inspect::Forest forest, read_cache(options, root));
  const std::string& path = options.words.front();
  TRY_ASSIGN(const auto named, find_ids(forest, {options.words.begin() + 1, options.words.end()}));
  const auto chosen = inspect::files_to_export(forest, named.empty() ? all_runs(forest) : named);
  if (chosen.files.empty()) return not_found("there is nothing to export");
  if (os::resolve_links(path)) return invalid(path + " exists: name another file, or remove it first");
  auto report = inspect::export_files(os::real_file_system(), forest, chosen.files, path);
  if (!report) return with_name(path, report.error());
  report->others = chosen.others;
  report->foreign_tokens = chosen.foreign_tokens;
  print(options.json ? inspect::export_json(*report) : inspect::export_text(*report, path));
  return 0;
}

Result<int> run_cache_import(const CacheCommandOptions& options, const std::string& root) {
  os::FileSystem& files = os::real_file_system();
  const std::string& named = options.words.front();
  TRY_ASSIGN(const std::string path, os::resolve_links(named));
  TRY_ASSIGN(const inspect::Forest before, read_cache(options, root));  // first: `root` must be a cache
  TRY_ASSIGN(const auto lock, hold_cache(root));
  inspect::ViewOptions counted;
  counted.most_runs = 0;
  const ByteCount used = inspect::view_of(before, counted).used;
  TRY_ASSIGN(const ByteCount budget, cache_budget(options, root));
  TRY_ASSIGN(const os::Space space, files.space(root));
  inspect::ImportOptions import;
  import.room = budget - std::min(used, budget);
  import.free = space.free;
  import.root = root;
  import.own_mark = "import-" + std::to_string(os::process_id());
  inspect::Guest guest(root, files, os::real_clock());
  if (lock == nullptr) TRY(take_part(guest, import));
  const auto report = inspect::import_files(files, path, import);
  if (!report) return with_name(named, report.error());
  print(options.json ? inspect::import_json(*report) : inspect::import_text(*report));
  return 0;
}

}  // namespace kvkeep::cli
