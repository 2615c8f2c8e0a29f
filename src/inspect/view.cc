#include "inspect/view.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "format/segment_file.h"
#include "inspect/model_notes.h"

namespace kvkeep::inspect {
namespace {

ByteCount physical(const store::FoundSegment& file) { return os::physical_size(file.info.size); }

// As traces name them (docs/trace.md); "" without a tenant.
std::string short_name(const Tenant& tenant) { return tenant == kNoTenant ? std::string() : tenant.hex(4); }

// The count of rows, windows or points, which a model and a run both have.
template <typename View>
FileCount& count_of(View& view, format::PartKind kind) {
  if (kind == format::PartKind::kRows) return view.rows;
  return kind == format::PartKind::kWindowRows ? view.windows : view.points;
}

// A file's time is its last use or, if it lies in the future, the time until which it is kept.
struct Times {
  std::optional<std::int64_t> oldest_ns;
  std::optional<std::int64_t> newest_ns;
  std::optional<std::int64_t> kept_until_ns;
  void add(std::int64_t modified_ns, std::int64_t now_ns) {
    const std::int64_t used_ns = std::min(modified_ns, now_ns);
    oldest_ns = std::min(oldest_ns.value_or(used_ns), used_ns);
    newest_ns = std::max(newest_ns.value_or(used_ns), used_ns);
    if (modified_ns > now_ns) kept_until_ns = std::max(kept_until_ns.value_or(modified_ns), modified_ns);
  }
};

// The runs of one model, as a listing shows them.
class Listing {
 public:
  Listing(const Forest& forest, std::size_t model, const ViewOptions& options)
      : forest_(forest),
        model_(forest.directory.models[model]),
        files_(model_.files.segments),
        tree_(forest.trees[model]),
        options_(options) {
    for (std::size_t run = 0; run < tree_.runs.size(); ++run) views_.push_back(own_view(run));
    for (const std::size_t pinned : pinned_runs(forest, model)) {
      for (std::size_t run = pinned; run != kNone; run = tree_.runs[run].parent) views_[run].pinned = true;
    }
    // Parents come before children, so backwards each child is complete before its parent takes its time.
    for (std::size_t run = views_.size(); run-- > 0;) {
      const std::size_t parent = tree_.runs[run].parent;
      if (parent != kNone) views_[parent].used_ns = std::max(views_[parent].used_ns, views_[run].used_ns);
    }
  }

  RunView shown(std::size_t run) const {
    RunView view = views_[run];
    if (options_.words) view.words = options_.words(model_, own_tokens(tree_, files_, run));
    return view;
  }

  std::vector<RunView> list() const {
    std::vector<std::size_t> waiting;
    push_sorted(waiting, tree_.roots);
    std::vector<RunView> listed;
    while (!waiting.empty() && listed.size() < options_.most_runs) {
      const std::size_t run = waiting.back();
      waiting.pop_back();
      listed.push_back(shown(run));
      if (tree_.runs[run].depth + 1 < options_.most_depth) push_sorted(waiting, tree_.runs[run].children);
    }
    return listed;
  }

 private:
  RunView own_view(std::size_t place) const {
    const Run& run = tree_.runs[place];
    RunView view;
    view.id = forest_.ids.shown(run.end_hash);
    view.hash = run.end_hash.hex();
    if (run.parent != kNone) view.parent = forest_.ids.shown(tree_.runs[run.parent].end_hash);
    const Tenant& tenant = files_[run.rows.front()].header.tenant;
    view.tenant = short_name(tenant);
    view.set_aside = has_former_adapters(tenant);
    view.depth = run.depth;
    view.range = run.range;
    Times times;
    for (const std::vector<std::size_t>* part : {&run.rows, &run.leaves}) {
      for (const std::size_t file : *part) {
        count_of(view, files_[file].header.name.kind).add(physical(files_[file]));
        times.add(files_[file].info.modified_ns, options_.now_ns);
      }
    }
    view.used_ns = times.newest_ns.value_or(0);
    view.kept_until_ns = times.kept_until_ns;
    return view;
  }

  // The run that is to be listed first comes last.
  void push_sorted(std::vector<std::size_t>& waiting, std::vector<std::size_t> runs) const {
    std::ranges::sort(runs, [&](std::size_t a, std::size_t b) { return comes_first(b, a); });
    waiting.insert(waiting.end(), runs.begin(), runs.end());
  }

  bool comes_first(std::size_t a, std::size_t b) const {
    const auto key = [&](std::size_t run) -> std::uint64_t {
      switch (options_.order) {
        case Order::kUsed: return static_cast<std::uint64_t>(views_[run].used_ns);
        case Order::kSize: return views_[run].bytes().value();
        case Order::kTokens: return views_[run].range.end.value();
        case Order::kPosition: return 0;
      }
      return 0;
    };
    return key(a) != key(b) ? key(a) > key(b) : a < b;
  }

  const Forest& forest_;
  const ModelDirectory& model_;
  const std::vector<store::FoundSegment>& files_;
  const PrefixTree& tree_;
  const ViewOptions& options_;
  std::vector<RunView> views_;
};

std::string_view kind_text(format::PartKind kind) {
  switch (kind) {
    case format::PartKind::kRows: return "rows";
    case format::PartKind::kWindowRows: return "window rows";
    case format::PartKind::kPoint: return "point";
    case format::PartKind::kWhole: return "whole state";
  }
  return "rows";
}

FileView view_of_file(const store::FoundSegment& file) {
  const format::Part& part = file.header.parts.front();
  FileView view;
  view.name = file.info.name;
  view.kind = kind_text(file.header.name.kind);
  view.range = {file.header.name.begin, file.header.name.end};
  view.bytes = physical(file);
  view.payload = ByteCount{format::payload_bytes(file.header)};
  view.sum = fmt::format("{:016x}{:016x}", part.sum.high, part.sum.low);
  view.version = format::version_of(file.header);
  view.sampled = file.header.origin == format::Origin::kSampled;
  if (part.built()) view.base = part.base;
  view.modified_ns = file.info.modified_ns;
  return view;
}

FileCount count_all(const std::vector<os::FileInfo>& files) {
  FileCount count;
  for (const os::FileInfo& info : files) count.add(os::physical_size(info.size));
  return count;
}

void count_files(ModelView& view, const store::DirectoryScan& files, std::int64_t now_ns) {
  Times times;
  std::set<Tenant> tenants;
  for (const store::FoundSegment& file : files.segments) {
    count_of(view, file.header.name.kind).add(physical(file));
    ++view.versions[format::version_of(file.header)];
    if (file.header.tenant != kNoTenant) tenants.insert(file.header.tenant);
    if (has_former_adapters(file.header.tenant)) view.set_aside.add(physical(file));
    if (std::ranges::any_of(file.header.parts, &format::Part::built)) ++view.built;
    times.add(file.info.modified_ns, now_ns);
  }
  view.tenants = tenants.size();
  view.oldest_use_ns = times.oldest_ns;
  view.newest_use_ns = times.newest_ns;
  view.damaged = count_all(files.damaged);
  view.unreadable = count_all(files.unreadable);
  view.temporaries = count_all(files.temporaries);
  if (files.index) view.index.add(os::physical_size(files.index->size));
  view.foreign = files.foreign_names;
  for (const FileCount* part :
       {&view.rows, &view.windows, &view.points, &view.damaged, &view.unreadable, &view.temporaries, &view.index}) {
    view.all.files += part->files;
    view.all.bytes += part->bytes;
  }
}

ModelView view_of_model(const Forest& forest, std::size_t model, const ViewOptions& options) {
  const PrefixTree& tree = forest.trees[model];
  ModelView view;
  view.fingerprint = forest.directory.models[model].fingerprint.hex();
  view.note = forest.directory.models[model].note;
  view.distrust = forest.directory.models[model].distrust;
  view.pins = forest.directory.models[model].pins.size();
  count_files(view, forest.directory.models[model].files, options.now_ns);
  view.lost = tree.orphans.size() + tree.misnamed.size();
  view.prefixes = tree.runs.size();
  for (const Run& run : tree.runs) view.tokens += run.range.size();
  view.runs = Listing(forest, model, options).list();
  view.hidden = view.prefixes - view.runs.size();
  return view;
}

}  // namespace

Forest plant(CacheDirectory directory) {
  Forest forest{.directory = std::move(directory), .trees = {}, .ids = {}};
  for (std::size_t model = 0; model < forest.directory.models.size(); ++model) {
    const ModelDirectory& read = forest.directory.models[model];
    forest.trees.push_back(build_tree(read.fingerprint, read.files.segments));
    const PrefixTree& tree = forest.trees.back();
    for (std::size_t run = 0; run < tree.runs.size(); ++run) {
      for (const std::size_t file : tree.runs[run].rows) {
        forest.ids.add(read.files.segments[file].header.name.end_hash, {model, run});
      }
    }
  }
  forest.ids.sort();
  return forest;
}

CacheView view_of(const Forest& forest, const ViewOptions& options) {
  CacheView view;
  view.root = forest.directory.root;
  view.servers = forest.directory.servers;
  view.now_ns = options.now_ns;
  view.budget = options.budget;
  view.quarantine = count_all(forest.directory.quarantine);
  view.foreign = forest.directory.foreign_names;
  view.used = view.quarantine.bytes;
  for (std::size_t model = 0; model < forest.directory.models.size(); ++model) {
    view.models.push_back(view_of_model(forest, model, options));
    view.used += view.models.back().all.bytes;
  }
  return view;
}

PrefixView view_of_prefix(const Forest& forest, IdTarget target, const ViewOptions& options) {
  const PrefixTree& tree = forest.trees[target.model];
  const ModelDirectory& model = forest.directory.models[target.model];
  PrefixView view;
  view.fingerprint = model.fingerprint.hex();
  view.run = Listing(forest, target.model, options).shown(target.run);
  for (std::size_t above = target.run; above != kNone; above = tree.runs[above].parent) {
    view.path.insert(view.path.begin(), forest.ids.shown(tree.runs[above].end_hash));
  }
  for (const std::vector<std::size_t>* part : {&tree.runs[target.run].rows, &tree.runs[target.run].leaves}) {
    for (const std::size_t file : *part) view.files.push_back(view_of_file(model.files.segments[file]));
  }
  std::ranges::sort(view.files, {}, [](const FileView& file) { return std::pair(file.range.end, file.name.size()); });
  view.ids = path_tokens(tree, model.files.segments, target.run);
  return view;
}

}  // namespace kvkeep::inspect
