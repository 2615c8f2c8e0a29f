#include "inspect/removal.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

namespace kvkeep::inspect {
namespace {

void append_model(const ModelDirectory& model, const PrefixTree& tree, const std::set<std::size_t>& runs,
                  std::vector<Removal>& removals) {
  std::vector<std::size_t> files;
  for (const std::size_t run : runs) {
    files.insert(files.end(), tree.runs[run].rows.begin(), tree.runs[run].rows.end());
    files.insert(files.end(), tree.runs[run].leaves.begin(), tree.runs[run].leaves.end());
  }
  std::ranges::sort(files, std::greater{},
                    [&](std::size_t file) { return order_of(model.files.segments[file].header, file); });
  for (const std::size_t file : files) {
    const os::FileInfo& info = model.files.segments[file].info;
    removals.push_back({model.path, info.name, os::physical_size(info.size), Why::kAsked});
  }
}

bool is_advisory(const os::FileInfo& info) {
  return info.is_regular && (info.name == store::kIndexName || store::is_note_name(info.name));
}

}  // namespace

std::string_view to_string(Why why) {
  switch (why) {
    case Why::kAsked: return "asked";
    case Why::kTemporary: return "temporary";
    case Why::kOrphan: return "orphan";
    case Why::kDamaged: return "damaged";
    case Why::kRedundant: return "redundant";
    case Why::kQuarantine: return "quarantine";
    case Why::kBudget: return "budget";
    case Why::kAdvisory: return "advisory";
    case Why::kEmpty: return "empty";
  }
  return "asked";
}

FileCount RemovalReport::all() const {
  FileCount all;
  for (const auto& [why, count] : removed) {
    if (why == Why::kEmpty) continue;
    all.files += count.files;
    all.bytes += count.bytes;
  }
  return all;
}

std::vector<Removal> removals_of(const Forest& forest, const std::vector<IdTarget>& runs) {
  std::vector<Removal> removals;
  for (std::size_t model = 0; model < forest.trees.size(); ++model) {
    std::set<std::size_t> all;
    for (const IdTarget& target : runs) {
      if (target.model != model) continue;
      const auto below = subtree(forest.trees[model], target.run);
      all.insert(below.begin(), below.end());
    }
    append_model(forest.directory.models[model], forest.trees[model], all, removals);
  }
  return removals;
}

Result<std::vector<Removal>> removals_of_model(os::FileSystem& files, const ModelDirectory& model) {
  TRY_ASSIGN(auto listed, files.list(model.path));
  std::vector<Removal> removals;
  // By what is known of their headers; all others hang below nothing or are none.
  const PrefixTree tree = build_tree(model.fingerprint, model.files.segments);
  std::set<std::size_t> runs;
  for (std::size_t run = 0; run < tree.runs.size(); ++run) runs.insert(run);
  append_model(model, tree, runs, removals);
  std::set<std::string> known;
  for (const Removal& removal : removals) known.insert(removal.file);
  for (const os::FileInfo& info : listed) {
    const bool advisory = is_advisory(info);
    if (!info.is_regular || known.contains(info.name)) continue;
    if (!advisory && !store::is_segment_name(info.name)) continue;
    removals.push_back({model.path, info.name, os::physical_size(info.size), advisory ? Why::kAdvisory : Why::kAsked});
  }
  return removals;
}

void add_empty_models(os::FileSystem& files, const CacheDirectory& directory, std::vector<Removal>& removals) {
  for (const ModelDirectory& model : directory.models) {
    std::set<std::string> going;
    for (const Removal& removal : removals) {
      if (removal.directory == model.path) going.insert(removal.file);
    }
    auto listed = files.list(model.path);
    if (!listed) continue;  // gone
    std::erase_if(*listed, [&](const os::FileInfo& info) { return going.contains(info.name); });
    if (!std::ranges::all_of(*listed, is_advisory)) continue;
    for (const os::FileInfo& info : *listed) {
      removals.push_back({model.path, info.name, os::physical_size(info.size), Why::kAdvisory});
    }
    removals.push_back({directory.root, model.fingerprint.hex(), {}, Why::kEmpty});
  }
}

RemovalReport remove_all(os::FileSystem* files, const std::vector<Removal>& removals) {
  RemovalReport report;
  std::set<std::string> changed;
  std::set<std::string> refused;
  for (const Removal& removal : removals) {
    if (refused.contains(removal.directory)) {
      ++report.failed;
      continue;
    }
    const Status removed = files == nullptr ? Status{} : files->remove(removal.directory + "/" + removal.file);
    if (removed) {
      report.removed[removal.why].add(removal.bytes);
      changed.insert(removal.directory);
    } else if (removed.error().kind != ErrorKind::kNotFound) {
      refused.insert(removal.directory);
      ++report.failed;
    }
  }
  if (files == nullptr) return report;
  for (const std::string& directory : changed) {
    // What comes back after a power cut was asked to go; there is nothing more to be done about it here.
    (void)files->sync_directory(directory);
  }
  return report;
}

}  // namespace kvkeep::inspect
