#include "inspect/removal.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "format/segment_file.h"
#include "inspect/model_notes.h"
#include "policy/evict_order.h"

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
    if (info.name == store::kWeightsName) continue;  // whose a living server's next files are
    if (!advisory && !store::is_segment_name(info.name)) continue;
    removals.push_back({model.path, info.name, os::physical_size(info.size), advisory ? Why::kAdvisory : Why::kAsked});
  }
  return removals;
}

std::vector<std::unique_ptr<os::FileLock>> add_empty_models(os::FileSystem& files, const CacheDirectory& directory,
                                                            std::vector<Removal>& removals) {
  std::vector<std::unique_ptr<os::FileLock>> unused;
  for (const ModelDirectory& model : directory.models) {
    std::set<std::string> going;
    for (const Removal& removal : removals) {
      if (removal.directory == model.path) going.insert(removal.file);
    }
    auto listed = files.list(model.path);
    if (!listed) continue;  // removed meanwhile
    std::erase_if(*listed, [&](const os::FileInfo& info) { return going.contains(info.name); });
    if (!std::ranges::all_of(*listed, is_advisory)) continue;
    auto lock = files.lock(store::make_layout(directory.root, model.fingerprint).users);
    if (!lock) continue;  // a server has just begun
    unused.push_back(std::move(*lock));
    for (const os::FileInfo& info : *listed) {
      removals.push_back({model.path, info.name, os::physical_size(info.size), Why::kAdvisory});
    }
    removals.push_back({directory.root, model.fingerprint.hex(), {}, Why::kEmpty});
  }
  return unused;
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

namespace {

// The largest share that kept state may have of the files that stay: as in a server.
constexpr std::uint64_t kKeptShare = 2;

bool is_old(const os::FileInfo& info, const CollectOptions& options) {
  return info.modified_ns + kGraceNs <= options.now_ns;
}

void add_all(const ModelDirectory& model, const std::vector<os::FileInfo>& infos, Why why,
             const CollectOptions& options, std::vector<Removal>& removals) {
  for (const os::FileInfo& info : infos) {
    if (is_old(info, options)) removals.push_back({model.path, info.name, os::physical_size(info.size), why});
  }
}

void add_useless(const Forest& forest, std::size_t number, const CollectOptions& options,
                 std::vector<Removal>& removals) {
  const ModelDirectory& model = forest.directory.models[number];
  const PrefixTree& tree = forest.trees[number];
  const auto add = [&](std::vector<std::size_t> places, Why why) {
    std::ranges::sort(places, std::greater{},
                      [&](std::size_t file) { return order_of(model.files.segments[file].header, file); });
    std::vector<os::FileInfo> infos;
    for (const std::size_t file : places) infos.push_back(model.files.segments[file].info);
    add_all(model, infos, why, options, removals);
  };
  if (options.alone) add_all(model, model.files.temporaries, Why::kTemporary, options, removals);
  add_all(model, model.files.damaged, Why::kDamaged, options, removals);
  add(tree.misnamed, Why::kDamaged);
  add(tree.orphans, Why::kOrphan);
  if (options.alone) add(tree.redundant, Why::kRedundant);
}

// The files of one model as policy sees them; segment n + 1 is file n.
class Eviction {
 public:
  Eviction(const Forest& forest, std::size_t number, const CollectOptions& options)
      : model_(forest.directory.models[number]), tree_(forest.trees[number]), options_(options) {
    for (std::size_t run = 0; run < tree_.runs.size(); ++run) add_run(run);
    for (policy::EvictCandidate& candidate : candidates_) {
      if (candidate.kind != policy::CandidateKind::kRows) candidate.base = base_of(candidate.segment.value() - 1);
    }
    for (const std::size_t pinned : pinned_runs(forest, number)) {
      for (std::size_t run = pinned; run != kNone; run = tree_.runs[run].parent) keep(run);
    }
  }

  // All files, in the order in which they should leave.
  std::vector<Removal> order() const {
    policy::EvictOrder order(shape_);
    for (const policy::EvictCandidate& candidate : candidates_) order.put(candidate);
    policy::EvictOrder::Request request{ByteCount{UINT64_MAX}};
    request.now_ns = options_.now_ns;
    request.kept_room = ByteCount{options_.most->value() / kKeptShare};
    std::vector<Removal> removals;
    while (true) {
      const std::vector<SegmentId> victims = order.choose(request, [](SegmentId) { return false; });
      if (victims.empty()) return removals;
      for (const SegmentId victim : victims) {
        const os::FileInfo& info = model_.files.segments[victim.value() - 1].info;
        removals.push_back({model_.path, info.name, os::physical_size(info.size), Why::kBudget});
        order.erase(victim);
      }
    }
  }

 private:
  static SegmentId id_of(std::size_t file) { return SegmentId{static_cast<std::uint32_t>(file + 1)}; }
  const format::SegmentHeader& header(std::size_t file) const { return model_.files.segments[file].header; }

  void add_run(std::size_t place) {
    const Run& run = tree_.runs[place];
    SegmentId above = run.parent == kNone ? kRootSegment : rows_at(run.parent, run.range.begin);
    for (const std::size_t file : run.rows) {
      add(file, above);
      above = id_of(file);
    }
    for (const std::size_t file : run.leaves) add(file, rows_at(place, header(file).name.end));
  }

  void keep(std::size_t place) {
    const Run& run = tree_.runs[place];
    for (policy::EvictCandidate& candidate : candidates_) {
      const std::size_t file = candidate.segment.value() - 1;
      if (tree_.run_of[file] == place && header(file).name.begin < run.range.end) {
        candidate.kept_until_ns = options_.now_ns + policy::kLongestKeepNs;
      }
    }
  }

  // The last rows of a run that begin before a position.
  SegmentId rows_at(std::size_t run, Position at) const {
    std::size_t found = tree_.runs[run].rows.front();
    for (const std::size_t file : tree_.runs[run].rows) {
      if (header(file).name.begin < at) found = file;
    }
    return id_of(found);
  }

  void add(std::size_t file, SegmentId above) {
    const os::FileInfo& info = model_.files.segments[file].info;
    const format::SegmentName& name = header(file).name;
    policy::EvictCandidate candidate;
    candidate.segment = id_of(file);
    candidate.parent = candidate.above = above;
    candidate.bytes = os::physical_size(info.size);
    candidate.begin = name.begin;
    candidate.tokens = static_cast<std::uint32_t>(name.end - name.begin);
    candidate.last_used_ns = std::min(info.modified_ns, options_.now_ns);
    if (info.modified_ns > options_.now_ns) candidate.kept_until_ns = info.modified_ns;
    if (name.kind != format::PartKind::kRows) {
      const bool window = name.kind == format::PartKind::kWindowRows;
      candidate.kind = window ? policy::CandidateKind::kWindow : policy::CandidateKind::kPoint;
      shape_.needs_points = true;
      // Windows are captured in pieces of at most the window.
      if (window) shape_.window_tokens = std::max(shape_.window_tokens, candidate.tokens);
    }
    candidates_.push_back(candidate);
  }

  // A state's base is the whole state of the same path at the position that its part names.
  SegmentId base_of(std::size_t file) const {
    const Position base = header(file).parts.front().base;
    if (base == Position{}) return kRootSegment;
    Position below = header(file).name.end;
    for (std::size_t run = tree_.run_of[file]; run != kNone; run = tree_.runs[run].parent) {
      for (const std::size_t leaf : tree_.runs[run].leaves) {
        const format::SegmentName& name = header(leaf).name;
        if (name.kind == format::PartKind::kWhole && name.end == base && name.end <= below) return id_of(leaf);
      }
      below = tree_.runs[run].range.begin;
    }
    return kRootSegment;
  }

  const ModelDirectory& model_;
  const PrefixTree& tree_;
  const CollectOptions& options_;
  std::vector<policy::EvictCandidate> candidates_;  // segment n + 1 is file n
  policy::OrderShape shape_;
};

// Each model has its own order; of several models the one gives a file whose next file was used longest ago.
void add_victims(const Forest& forest, ByteCount over, const CollectOptions& options, std::vector<Removal>& removals) {
  struct Queue {
    std::vector<Removal> files;
    std::vector<std::int64_t> used_ns;
    std::size_t next = 0;
  };
  std::vector<Queue> queues;
  for (std::size_t model = 0; model < forest.trees.size(); ++model) {
    std::unordered_map<std::string, std::int64_t> used_ns;
    for (const auto& file : forest.directory.models[model].files.segments)
      used_ns[file.info.name] = file.info.modified_ns;
    Queue queue{.files = Eviction(forest, model, options).order(), .used_ns = {}};
    for (const Removal& removal : queue.files) queue.used_ns.push_back(used_ns.at(removal.file));
    queues.push_back(std::move(queue));
  }
  for (ByteCount freed; freed < over;) {
    Queue* oldest = nullptr;
    for (Queue& queue : queues) {
      if (queue.next == queue.files.size()) continue;
      if (oldest == nullptr || queue.used_ns[queue.next] < oldest->used_ns[oldest->next]) oldest = &queue;
    }
    if (oldest == nullptr) return;
    freed += oldest->files[oldest->next].bytes;
    removals.push_back(oldest->files[oldest->next++]);
  }
}

}  // namespace

std::vector<Removal> collect(const Forest& forest, const CollectOptions& options) {
  std::vector<Removal> removals;
  for (std::size_t model = 0; model < forest.trees.size(); ++model) add_useless(forest, model, options, removals);
  if (options.quarantine) {
    const std::string directory = forest.directory.root + "/" + std::string(store::kQuarantineName);
    for (const os::FileInfo& info : forest.directory.quarantine) {
      removals.push_back({directory, info.name, os::physical_size(info.size), Why::kQuarantine});
    }
  }
  if (!options.most) return removals;
  ViewOptions counted;
  counted.now_ns = options.now_ns;
  counted.most_runs = 0;
  ByteCount left = view_of(forest, counted).used;
  for (const Removal& removal : removals) left -= removal.bytes;
  if (left > *options.most) add_victims(forest, left - *options.most, options, removals);
  return removals;
}

}  // namespace kvkeep::inspect
