#include "carry/lineage.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "base/media_ids.h"

namespace kvkeep::carry {

using inspect::kNone;

Lineage::Lineage(const inspect::PrefixTree& tree, std::span<const store::FoundSegment> files)
    : tree_(tree), files_(files), parents_(files.size(), kNone), places_(files.size()) {
  for (const inspect::Run& run : tree_.runs) find_parents(run);
}

// A run's first file leaves the run above it in the last file that begins, there, before the run does.
void Lineage::find_parents(const inspect::Run& run) {
  std::size_t before = kNone;
  if (run.parent != kNone) {
    const inspect::Run& above = tree_.runs[run.parent];
    Position begin = above.range.begin;
    for (const std::size_t file : above.rows) {
      if (begin >= run.range.begin) break;
      before = file;
      begin = files_[file].header.name.end;
    }
  }
  Position begin = run.range.begin;
  for (const std::size_t file : run.rows) {
    parents_[file] = before;
    places_[file] = begin;
    before = file;
    begin = files_[file].header.name.end;
  }
  for (const std::size_t leaf : run.leaves) {
    const Position end = files_[leaf].header.name.end;
    places_[leaf] = end;
    const auto within =
        std::ranges::find_if(run.rows, [&](std::size_t file) { return files_[file].header.name.end >= end; });
    if (within != run.rows.end()) parents_[leaf] = *within;
  }
}

// A file may begin before the place where it leaves its parent; what leads to it ends where it begins.
std::vector<format::PathStep> Lineage::path(std::size_t file) const {
  const bool is_leaf = files_[file].header.name.kind != format::PartKind::kRows;
  std::vector<format::PathStep> path;
  std::vector<TokenSpan> ids;  // those of each step
  Position limit = files_[file].header.name.end;
  PrefixHash hash = files_[file].header.name.end_hash;
  for (std::size_t on_way = is_leaf ? parent(file) : file; on_way != kNone; on_way = parent(on_way)) {
    const format::SegmentName& name = files_[on_way].header.name;
    if (name.begin >= limit) continue;
    path.push_back({.end = limit,
                    .place = limit,
                    .hash = format::short_hash(hash),
                    .object_end = name.end,
                    .object_hash = format::short_hash(name.end_hash)});
    ids.push_back(TokenSpan(files_[on_way].header.tokens).first(std::min(limit, name.end) - name.begin));
    limit = name.begin;
    hash = name.begin_hash;
  }
  std::ranges::reverse(path);
  if (std::ranges::any_of(ids, [](TokenSpan own) { return std::ranges::any_of(own, is_media_id); })) {
    std::vector<TokenId> all;
    for (const TokenSpan own : ids | std::views::reverse) all.insert(all.end(), own.begin(), own.end());
    format::count_places(path, all);
  }
  return path;
}

std::vector<std::size_t> Lineage::last_used_first() const {
  std::vector<std::size_t> by_use;
  for (std::size_t file = 0; file < files_.size(); ++file) {
    if (placed(file)) by_use.push_back(file);
  }
  // std::stable_sort does not compile under clang with this library.
  std::ranges::sort(by_use, {}, [&](std::size_t file) { return std::pair(-files_[file].info.modified_ns, file); });
  std::vector<bool> taken(files_.size());
  std::vector<std::size_t> order;
  for (const std::size_t last : by_use) {
    const std::size_t from = order.size();
    for (std::size_t file = last; file != kNone && !taken[file]; file = parent(file)) {
      taken[file] = true;
      order.push_back(file);
    }
    std::reverse(order.begin() + static_cast<std::ptrdiff_t>(from), order.end());
  }
  return order;
}

std::vector<std::size_t> Lineage::beginnings_first() const {
  std::vector<std::size_t> order;
  for (const inspect::Run& run : tree_.runs) {
    order.insert(order.end(), run.rows.begin(), run.rows.end());
    order.insert(order.end(), run.leaves.begin(), run.leaves.end());
  }
  std::ranges::sort(order, {}, [&](std::size_t file) { return std::pair(places_[file], file); });
  return order;
}

}  // namespace kvkeep::carry
