#include "store/removal_order.h"

#include <map>
#include <queue>
#include <string_view>
#include <tuple>
#include <unordered_map>

namespace kvkeep::store {
namespace {

using format::PartKind;
using format::SegmentName;
using Indices = std::vector<std::size_t>;

// The position at which a file hangs below rows.
PrefixHash hook_hash(const SegmentName& name) { return name.kind == PartKind::kRows ? name.begin_hash : name.end_hash; }
Position hook(const SegmentName& name) { return name.kind == PartKind::kRows ? name.begin : name.end; }

bool is_possible(const SegmentName& name) {
  const bool run = name.kind == PartKind::kRows || name.kind == PartKind::kWindowRows;
  return run ? name.begin < name.end : name.begin == name.end;
}

class RemovalOrder {
 public:
  explicit RemovalOrder(const std::vector<UnservedFile>& files) : files_(files), states_(files.size()) {
    for (std::size_t i = 0; i < files.size(); ++i) {
      states_[i].directory = &directories_[files[i].directory];
      if (!files[i].place || !is_possible(files[i].place->name)) continue;
      states_[i].place = &*files[i].place;
      note(i, files[i].place->name);
    }
    for (std::size_t i = 0; i < files.size(); ++i) {
      if (states_[i].place != nullptr) link(i, *states_[i].place);
    }
  }

  Indices all() {
    for (std::size_t i = 0; i < files_.size(); ++i) offer(i);
    Indices order;
    while (!may_leave_.empty()) {
      const std::size_t next = std::get<2>(may_leave_.top());
      may_leave_.pop();
      if (waits_for_branches(next)) continue;
      order.push_back(next);
      leave(next);
    }
    return order;
  }

 private:
  // Files that branch off in the middle of others at one position, and the files that wait until they have left.
  struct Branches {
    std::size_t count = 0;
    Indices waiting;
  };
  struct Directory {
    std::unordered_map<PrefixHash, Indices> rows_by_end;
    std::unordered_map<PrefixHash, Indices> windows_by_end;
    std::map<Position, Indices> whole_by_end;
    std::map<Position, Branches> branches;
  };
  struct State {
    Directory* directory = nullptr;
    const FilePlace* place = nullptr;
    Indices continues;
    std::size_t continued_by = 0;
    bool branches = false;
  };

  void note(std::size_t file, const SegmentName& name) {
    Directory& directory = *states_[file].directory;
    switch (name.kind) {
      case PartKind::kRows: directory.rows_by_end[name.end_hash].push_back(file); break;
      case PartKind::kWindowRows: directory.windows_by_end[name.end_hash].push_back(file); break;
      case PartKind::kWhole: directory.whole_by_end[name.end].push_back(file); break;
      case PartKind::kPoint: break;
    }
  }

  void link(std::size_t file, const FilePlace& place) {
    Directory& directory = *states_[file].directory;
    const SegmentName& name = place.name;
    const bool at_an_end = link_all(file, directory.rows_by_end, hook_hash(name), hook(name));
    if (!at_an_end && hook(name) > Position{}) {
      states_[file].branches = true;
      ++directory.branches[hook(name)].count;
    }
    if (name.kind == PartKind::kWindowRows) link_all(file, directory.windows_by_end, name.begin_hash, name.begin);
    if (name.kind != PartKind::kWhole || place.base >= name.end) return;
    // Only by position: the hash of a base lies with its payload.
    const auto bases = directory.whole_by_end.find(place.base);
    if (bases == directory.whole_by_end.end()) return;
    for (const std::size_t base : bases->second) link_to(file, base);
  }

  // Begin and end grow along every link, and rows need only rows: whatever headers claim, there is no circle.
  bool link_all(std::size_t file, const std::unordered_map<PrefixHash, Indices>& by_end, const PrefixHash& hash,
                Position at) {
    const auto found = by_end.find(hash);
    if (found == by_end.end()) return false;
    bool any = false;
    for (const std::size_t above : found->second) {
      if (states_[above].place->name.end != at) continue;
      link_to(file, above);
      any = true;
    }
    return any;
  }

  void link_to(std::size_t file, std::size_t continued) {
    states_[file].continues.push_back(continued);
    ++states_[continued].continued_by;
  }

  void offer(std::size_t file) {
    if (states_[file].continued_by == 0) may_leave_.emplace(files_[file].modified_ns, files_[file].path, file);
  }

  bool waits_for_branches(std::size_t file) {
    const FilePlace* place = states_[file].place;
    if (place == nullptr || place->name.kind != PartKind::kRows) return false;
    auto& branches = states_[file].directory->branches;
    const auto inside = branches.upper_bound(place->name.begin);
    if (inside == branches.end() || inside->first >= place->name.end) return false;
    inside->second.waiting.push_back(file);
    return true;
  }

  void leave(std::size_t file) {
    for (const std::size_t continued : states_[file].continues) {
      --states_[continued].continued_by;
      offer(continued);
    }
    if (!states_[file].branches) return;
    auto& branches = states_[file].directory->branches;
    const auto at = branches.find(hook(states_[file].place->name));
    if (--at->second.count > 0) return;
    const Indices waiting = std::move(at->second.waiting);
    branches.erase(at);
    for (const std::size_t next : waiting) offer(next);
  }

  const std::vector<UnservedFile>& files_;
  std::map<std::string_view, Directory> directories_;
  std::vector<State> states_;
  using Oldest = std::tuple<std::int64_t, std::string_view, std::size_t>;
  std::priority_queue<Oldest, std::vector<Oldest>, std::greater<>> may_leave_;
};

}  // namespace

FilePlace place_of(const format::SegmentHeader& header) {
  FilePlace place{.name = header.name, .base = {}};
  for (const format::Part& part : header.parts) place.base = std::max(place.base, part.base);
  return place;
}

std::vector<std::size_t> removal_order(const std::vector<UnservedFile>& files) { return RemovalOrder(files).all(); }

}  // namespace kvkeep::store
