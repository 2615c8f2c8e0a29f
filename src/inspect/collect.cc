#include "inspect/collect.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "inspect/pins.h"
#include "policy/evict_order.h"

namespace kvkeep::inspect {
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
