#include "inspect/removal.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "format/segment_file.h"

namespace kvkeep::inspect {
namespace {

// The reason for each file that goes with a run.
std::vector<Why> whys_of(const PrefixTree& tree) {
  std::vector<Why> whys(tree.run_of.size(), Why::kAsked);
  for (const std::size_t file : tree.redundant) whys[file] = Why::kRedundant;
  for (const std::size_t file : tree.orphans) whys[file] = Why::kOrphan;
  for (const std::size_t file : tree.misnamed) whys[file] = Why::kDamaged;
  return whys;
}

void append_model(const ModelDirectory& model, const PrefixTree& tree, const std::set<std::size_t>& runs,
                  std::vector<Removal>& removals) {
  std::vector<std::size_t> files;
  for (const std::size_t run : runs) {
    files.insert(files.end(), tree.runs[run].rows.begin(), tree.runs[run].rows.end());
    files.insert(files.end(), tree.runs[run].leaves.begin(), tree.runs[run].leaves.end());
    files.insert(files.end(), tree.runs[run].unshown.begin(), tree.runs[run].unshown.end());
  }
  const std::vector<Why> whys = whys_of(tree);
  std::ranges::sort(files, std::greater{},
                    [&](std::size_t file) { return order_of(model.files.segments[file].header, file); });
  for (const std::size_t file : files) {
    const os::FileInfo& info = model.files.segments[file].info;
    removals.push_back({model.path, info.name, os::physical_size(info.size), whys[file]});
  }
}

// Files of a model that no run shows, with the reasons to remove them.
std::vector<Removal> lost_files(const ModelDirectory& model, const PrefixTree& tree) {
  std::vector<Removal> lost;
  const auto add = [&](const os::FileInfo& info, Why why) {
    lost.push_back({model.path, info.name, os::physical_size(info.size), why});
  };
  for (const std::size_t file : tree.orphans) add(model.files.segments[file].info, Why::kOrphan);
  for (const std::size_t file : tree.misnamed) add(model.files.segments[file].info, Why::kDamaged);
  for (const os::FileInfo& info : model.files.damaged) add(info, Why::kDamaged);
  return lost;
}

// The prefixes in a file's name (format::file_name()), also if its header is damaged.
struct Ends {
  std::string begin;
  std::string end;
};
Ends ends_of(const std::string& file) {
  constexpr std::size_t kDigits = 2 * format::kNameHashBytes;
  return {file.substr(0, kDigits), file.substr(kDigits + 1, kDigits)};
}

// Adds to a model's removals the damaged, orphaned and unreadable files that by their names end with the same prefix or
// continue it, and so on. Puts them in front, the last found first: children before parents.
void add_lost(const ModelDirectory& model, const PrefixTree& tree, std::vector<Removal>& removals) {
  std::vector<Removal> lost = lost_files(model, tree);
  for (const os::FileInfo& info : model.files.unreadable) {
    lost.push_back({model.path, info.name, os::physical_size(info.size), Why::kAsked});
  }
  std::unordered_set<std::string> going;
  std::vector<std::string> prefixes;
  for (const Removal& removal : removals) {
    going.insert(removal.file);
    prefixes.push_back(ends_of(removal.file).end);
  }
  std::unordered_multimap<std::string, std::size_t> by_prefix;
  for (std::size_t i = 0; i < lost.size(); ++i) {
    const Ends ends = ends_of(lost[i].file);
    by_prefix.emplace(ends.begin, i);
    by_prefix.emplace(ends.end, i);
  }
  std::vector<Removal> found;
  for (std::size_t next = 0; next < prefixes.size(); ++next) {
    const std::string prefix = prefixes[next];
    const auto [first, last] = by_prefix.equal_range(prefix);
    for (auto entry = first; entry != last; ++entry) {
      const Removal& removal = lost[entry->second];
      if (!going.insert(removal.file).second) continue;
      found.push_back(removal);
      prefixes.push_back(ends_of(removal.file).end);
    }
  }
  removals.insert(removals.begin(), found.rbegin(), found.rend());
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
    NamedRuns going = named_runs(forest.trees[model], runs_of_model(runs, model));
    going.asked.merge(going.others);
    std::vector<Removal> own;
    append_model(forest.directory.models[model], forest.trees[model], going.asked, own);
    add_lost(forest.directory.models[model], forest.trees[model], own);
    removals.insert(removals.end(), own.begin(), own.end());
  }
  return removals;
}

std::uint64_t other_conversations(const Forest& forest, const std::vector<IdTarget>& runs) {
  std::uint64_t count = 0;
  for (std::size_t model = 0; model < forest.trees.size(); ++model) {
    const PrefixTree& tree = forest.trees[model];
    count += count_conversations(tree, named_runs(tree, runs_of_model(runs, model)).others);
  }
  return count;
}

LeftFiles left_files(const Forest& forest, const std::vector<Removal>& removals, bool alone) {
  std::set<std::pair<std::string, std::string>> going;
  std::set<std::string> touched;
  for (const Removal& removal : removals) {
    going.emplace(removal.directory, removal.file);
    touched.insert(removal.directory);
  }
  LeftFiles left;
  for (std::size_t i = 0; i < forest.trees.size(); ++i) {
    const ModelDirectory& model = forest.directory.models[i];
    if (!touched.contains(model.path)) continue;
    const auto add = [&](FileCount& count, const std::string& file, ByteCount physical) {
      if (!going.contains({model.path, file})) count.add(physical);
    };
    for (const Removal& lost : lost_files(model, forest.trees[i])) add(left.useless, lost.file, lost.bytes);
    for (const os::FileInfo& info : model.files.unreadable) add(left.unread, info.name, os::physical_size(info.size));
    if (!alone) continue;
    for (const os::FileInfo& info : model.files.temporaries) {
      add(left.useless, info.name, os::physical_size(info.size));
    }
  }
  if (touched.empty()) return left;
  for (const os::FileInfo& info : forest.directory.quarantine) left.quarantine.add(os::physical_size(info.size));
  return left;
}

Result<std::vector<Removal>> removals_of_model(os::FileSystem& files, const ModelDirectory& model) {
  TRY_ASSIGN(auto listed, files.list(model.path));
  std::vector<Removal> removals;
  // In the order of their headers; files without a run come last.
  const PrefixTree tree = build_tree(model.fingerprint, model.files.segments);
  std::set<std::size_t> runs;
  for (std::size_t run = 0; run < tree.runs.size(); ++run) runs.insert(run);
  append_model(model, tree, runs, removals);
  std::set<std::string> known;
  for (Removal& removal : removals) {
    removal.why = Why::kAsked;
    known.insert(removal.file);
  }
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
    if (!listed) continue;  // removed meanwhile
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
    // A failure is ignored: after a power cut the file may come back, and the user can remove it again.
    (void)files->sync_directory(directory);
  }
  return report;
}

}  // namespace kvkeep::inspect
