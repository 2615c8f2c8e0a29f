#include "inspect/prefix_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "index/prefix_index.h"

namespace kvkeep::inspect {
namespace {

constexpr std::size_t kCandidatesTold = 4;

std::size_t common_digits(const std::string& a, const std::string& b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

}  // namespace

std::vector<std::size_t> runs_of_model(const std::vector<IdTarget>& targets, std::size_t model) {
  std::vector<std::size_t> runs;
  for (const IdTarget& target : targets) {
    if (target.model == model) runs.push_back(target.run);
  }
  return runs;
}

void PrefixIds::sort() {
  std::ranges::sort(entries_, {}, &Entry::hex);
  for (std::size_t i = 1; i < entries_.size(); ++i) {
    shown_length_ = std::max(shown_length_, common_digits(entries_[i - 1].hex, entries_[i].hex) + 1);
  }
  shown_length_ = std::min(shown_length_, 2 * sizeof(PrefixHash));
}

Result<IdTarget> PrefixIds::find(std::string_view typed) const {
  if (typed.size() < kShortestTypedId || typed.size() > 2 * sizeof(PrefixHash) ||
      typed.find_first_not_of("0123456789abcdef") != std::string_view::npos) {
    return invalid(fmt::format("'{:.80}' is no id: {} to 64 hexadecimal digits, as kvkeep cache ls shows them", typed,
                               kShortestTypedId));
  }
  const auto first =
      std::ranges::lower_bound(entries_, typed, {}, [](const Entry& entry) { return std::string_view(entry.hex); });
  std::vector<std::string> candidates;
  for (auto entry = first; entry != entries_.end() && entry->hex.starts_with(typed); ++entry) {
    // Several names of one run are one answer.
    if (entry != first && entry->target == first->target) continue;
    candidates.push_back(entry->hex.substr(0, std::max(shown_length_, typed.size())));
    if (candidates.size() > kCandidatesTold) break;
  }
  if (candidates.empty()) return not_found(fmt::format("no prefix has the id '{}'; see kvkeep cache ls", typed));
  if (candidates.size() == 1) return first->target;
  std::string told = candidates.front();
  for (std::size_t i = 1; i < std::min(candidates.size(), kCandidatesTold); ++i) told += ", " + candidates[i];
  if (candidates.size() > kCandidatesTold) told += ", ...";
  return invalid(fmt::format("the id '{}' is ambiguous: {}", typed, told));
}

namespace {

using Outcome = index::Placement::Outcome;

std::vector<index::NamedSegment> names_of(std::span<const store::FoundSegment> files) {
  std::vector<index::NamedSegment> named;
  named.reserve(files.size());
  for (const store::FoundSegment& file : files) {
    const format::SegmentName& name = file.header.name;
    named.push_back({.range = {name.begin, name.end},
                     .begin_hash = name.begin_hash,
                     .end_hash = name.end_hash,
                     .tokens = file.header.tokens,
                     .kind = name.kind,
                     .origin = file.header.origin,
                     .tenant = file.header.tenant});
  }
  return named;
}

class Builder {
 public:
  Builder(const FingerprintHash& fingerprint, std::span<const store::FoundSegment> files) {
    const auto placements = index::rebuild(index_, fingerprint, names_of(files));
    tree_.run_of.assign(files.size(), kNone);
    for (std::size_t i = 0; i < placements.size(); ++i) {
      switch (placements[i].outcome) {
        case Outcome::kPlaced: file_of_[placements[i].segment] = i; break;
        case Outcome::kRedundant: tree_.redundant.push_back(i); break;
        case Outcome::kOrphan: tree_.orphans.push_back(i); break;
        case Outcome::kWrongHash: tree_.misnamed.push_back(i); break;
      }
      if (placements[i].outcome != Outcome::kPlaced && placements[i].within != kRootSegment) {
        unshown_[placements[i].within].push_back(i);
      }
    }
  }

  PrefixTree build() {
    for (const SegmentId first : rows_below(kRootSegment)) waiting_.push_back({first, kNone});
    std::ranges::reverse(waiting_);
    while (!waiting_.empty()) {
      const auto [first, parent] = waiting_.back();
      waiting_.pop_back();
      add_run(first, parent);
    }
    return std::move(tree_);
  }

 private:
  struct Waiting {
    SegmentId first;
    std::size_t parent;
  };

  // Sorted by where they begin and by their first token, so that the tree does not depend on the files' order.
  std::vector<SegmentId> rows_below(SegmentId segment) const {
    std::vector<SegmentId> found = index_.children(segment);
    std::erase_if(found, [&](SegmentId id) { return index_.info(id).kind != format::PartKind::kRows; });
    std::ranges::sort(found, {},
                      [&](SegmentId id) { return std::pair(index_.info(id).range.begin, index_.tokens(id).front()); });
    return found;
  }

  void add_run(SegmentId first, std::size_t parent) {
    const std::size_t place = tree_.runs.size();
    Run run;
    run.parent = parent;
    run.depth = parent == kNone ? 0 : tree_.runs[parent].depth + 1;
    run.range.begin = index_.info(first).range.begin;
    std::vector<SegmentId> below;
    for (SegmentId next = first;; next = below.front()) {
      take(next, place, run);
      below = rows_below(next);
      if (below.size() != 1 || index_.info(below.front()).range.begin != run.range.end) break;
    }
    tree_.runs.push_back(std::move(run));
    (parent == kNone ? tree_.roots : tree_.runs[parent].children).push_back(place);
    for (auto child = below.rbegin(); child != below.rend(); ++child) waiting_.push_back({*child, place});
  }

  void take(SegmentId segment, std::size_t place, Run& run) {
    const std::size_t file = file_of_.at(segment);
    run.rows.push_back(file);
    tree_.run_of[file] = place;
    for (const SegmentId leaf : index_.leaves_of(segment)) {
      run.leaves.push_back(file_of_.at(leaf));
      tree_.run_of[run.leaves.back()] = place;
    }
    if (const auto unshown = unshown_.find(segment); unshown != unshown_.end()) {
      run.unshown.insert(run.unshown.end(), unshown->second.begin(), unshown->second.end());
    }
    run.range.end = index_.info(segment).range.end;
    run.end_hash = index_.info(segment).end_hash;
  }

  index::PrefixIndex index_;
  std::unordered_map<SegmentId, std::size_t> file_of_;
  std::unordered_map<SegmentId, std::vector<std::size_t>> unshown_;  // files by the segment they lie in
  std::vector<Waiting> waiting_;                                     // depth first
  PrefixTree tree_;
};

// A segment may overlap earlier ones: the last one holds from where it begins.
void append_rows(std::vector<TokenId>& ids, const format::SegmentHeader& header) {
  ids.resize(header.name.begin.value());
  ids.insert(ids.end(), header.tokens.begin(), header.tokens.end());
}

}  // namespace

std::tuple<Position, std::size_t> order_of(const format::SegmentHeader& header, std::size_t file) {
  const bool rows = header.name.kind == format::PartKind::kRows;
  return {rows ? header.name.begin : header.name.end, file};
}

PrefixTree build_tree(const FingerprintHash& fingerprint, std::span<const store::FoundSegment> files) {
  return Builder(fingerprint, files).build();
}

std::vector<TokenId> path_tokens(const PrefixTree& tree, std::span<const store::FoundSegment> files, std::size_t run) {
  std::vector<std::size_t> path;
  for (std::size_t above = run; above != kNone; above = tree.runs[above].parent) path.push_back(above);
  std::ranges::reverse(path);
  std::vector<TokenId> ids;
  for (const std::size_t part : path) {
    for (const std::size_t file : tree.runs[part].rows) append_rows(ids, files[file].header);
  }
  return ids;
}

std::vector<TokenId> own_tokens(const PrefixTree& tree, std::span<const store::FoundSegment> files, std::size_t run) {
  const Run& shown = tree.runs[run];
  std::vector<TokenId> ids;
  for (const std::size_t file : shown.rows) {
    const format::SegmentHeader& header = files[file].header;
    const TokenSpan fresh = TokenSpan(header.tokens).subspan(shown.range.begin + ids.size() - header.name.begin);
    ids.insert(ids.end(), fresh.begin(), fresh.end());
  }
  return ids;
}

std::vector<std::size_t> subtree(const PrefixTree& tree, std::size_t run) {
  std::vector<std::size_t> found = {run};
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::vector<std::size_t>& children = tree.runs[found[i]].children;
    found.insert(found.end(), children.begin(), children.end());
  }
  std::ranges::reverse(found);
  return found;
}

NamedRuns named_runs(const PrefixTree& tree, const std::vector<std::size_t>& named) {
  NamedRuns runs;
  for (const std::size_t run : named) {
    runs.asked.insert(run);
    for (const std::size_t child : tree.runs[run].children) {
      const bool continues = tree.runs[child].range.begin == tree.runs[run].range.end;
      const std::vector<std::size_t> below = subtree(tree, child);
      (continues ? runs.asked : runs.others).insert(below.begin(), below.end());
    }
  }
  std::erase_if(runs.others, [&](std::size_t run) { return runs.asked.contains(run); });
  return runs;
}

std::size_t count_conversations(const PrefixTree& tree, const std::set<std::size_t>& runs) {
  const auto goes_on = [&](std::size_t run) {
    return std::ranges::any_of(tree.runs[run].children, [&](std::size_t child) {
      return tree.runs[child].range.begin == tree.runs[run].range.end;
    });
  };
  return runs.size() - static_cast<std::size_t>(std::ranges::count_if(runs, goes_on));
}

}  // namespace kvkeep::inspect
