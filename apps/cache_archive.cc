#include "cache_archive.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "cache_place.h"
#include "inspect/archive.h"
#include "inspect/guest.h"
#include "inspect/print/print.h"
#include "os/clock.h"
#include "os/pause.h"
#include "os/process.h"
#include "os/resolve_links.h"

namespace kvkeep::cli {
namespace {

// For a server to hear of it, look through the directory and evict.
constexpr std::chrono::milliseconds kPause{100};
constexpr int kMostPauses = 300;

// All that begins a conversation, and so everything.
std::vector<inspect::IdTarget> all_roots(const inspect::Forest& forest) {
  std::vector<inspect::IdTarget> roots;
  for (std::size_t model = 0; model < forest.trees.size(); ++model) {
    for (const std::size_t run : forest.trees[model].roots) roots.push_back({model, run});
  }
  return roots;
}

// Beside servers, room is theirs to give.
Status take_part(inspect::Guest& guest, inspect::ImportOptions& import) {
  TRY(guest.join());
  import.own_mark = guest.own_mark();
  import.beside_servers = true;
  import.reserve = [&guest](ByteCount bytes) {
    return guest.reserve(bytes, [pauses = 0]() mutable {
      os::pause(kPause);
      return ++pauses < kMostPauses;
    });
  };
  return {};
}

Error with_name(const std::string& name, const Error& error) { return {error.kind, name + ": " + error.message}; }

}  // namespace

Result<int> run_cache_export(const CacheCommandOptions& options, const std::string& root) {
  TRY_ASSIGN(const inspect::Forest forest, read_cache(options, root));
  const std::string& path = options.words.front();
  TRY_ASSIGN(const auto named, find_ids(forest, {options.words.begin() + 1, options.words.end()}));
  const auto chosen = inspect::files_to_export(forest, named.empty() ? all_roots(forest) : named);
  if (chosen.empty()) return not_found("there is nothing to export");
  const auto report = inspect::export_files(os::real_file_system(), forest, chosen, path);
  if (!report) return with_name(path, report.error());
  print(options.json ? inspect::export_json(*report) : inspect::export_text(*report, path));
  return 0;
}

Result<int> run_cache_import(const CacheCommandOptions& options, const std::string& root) {
  os::FileSystem& files = os::real_file_system();
  const std::string& named = options.words.front();
  TRY_ASSIGN(const std::string path, os::resolve_links(named));
  TRY_ASSIGN(const inspect::Forest before, read_cache(options, root));  // before a lock is made: it must be a cache
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
