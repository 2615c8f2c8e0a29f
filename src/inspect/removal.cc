#include "inspect/removal.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

namespace kvkeep::inspect {
namespace {

// What ends later goes first, and of what ends at one place leaves before rows: a state before the one it is built on,
// a leaf before the rows it hangs in, rows before those they continue.
struct Place {
  Position end;
  bool is_leaf;
  std::size_t file;
  auto key() const { return std::tuple(end, is_leaf, file); }
};

void append_model(const ModelDirectory& model, const PrefixTree& tree, const std::set<std::size_t>& runs,
                  std::vector<Removal>& removals) {
  std::vector<Place> places;
  for (const std::size_t run : runs) {
    const Run& removed = tree.runs[run];
    for (const std::size_t file : removed.rows)
      places.push_back({model.files.segments[file].header.name.end, false, file});
    for (const std::size_t file : removed.leaves)
      places.push_back({model.files.segments[file].header.name.end, true, file});
  }
  std::ranges::sort(places, std::greater{}, &Place::key);
  for (const Place& place : places) {
    const os::FileInfo& info = model.files.segments[place.file].info;
    removals.push_back({model.path, info.name, os::physical_size(info.size), Why::kAsked});
  }
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
  }
  return "asked";
}

FileCount RemovalReport::all() const {
  FileCount all;
  for (const auto& [why, count] : removed) {
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
    const bool advisory = info.name == store::kIndexName || info.name == store::kTurnsName;
    if (!info.is_regular || known.contains(info.name)) continue;
    if (!advisory && !store::is_segment_name(info.name)) continue;
    removals.push_back({model.path, info.name, os::physical_size(info.size), advisory ? Why::kAdvisory : Why::kAsked});
  }
  return removals;
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
