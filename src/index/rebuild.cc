// rebuild(): from segments that know their beginning by hash alone to a trie.
//
// A worklist of known prefixes. Every segment waits under the name (position, hash) of its beginning; when that prefix
// turns out to be known, the segment's tokens are hashed on from there once, and each name that somebody waits for on
// the way is a newly known prefix. Segments that are in the index already wait in the same way, so that named ones may
// hang below them. A leaf waits under the name of its end and is attached there.

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/assert.h"
#include "index/prefix_index.h"

namespace kvkeep::index {

namespace {

using Outcome = Placement::Outcome;

// What waits for one prefix: named segments and leaves by their place in the input, and segments already in the index.
struct Waiting {
  std::vector<std::size_t> named;
  std::vector<std::size_t> leaves;
  std::vector<SegmentId> indexed;
};

bool is_leaf(const NamedSegment& segment) { return segment.kind != format::PartKind::kRows; }

// A prefix that somebody waits for and that is known now.
struct Known {
  Cursor at;
  Tenant tenant;
  PrefixHasher hasher;
  Waiting waiting;
};

class Rebuild {
 public:
  Rebuild(PrefixIndex& index, const std::vector<NamedSegment>& segments)
      : index_(index), segments_(segments), placements_(segments.size()) {
    for (std::size_t i = 0; i < segments.size(); ++i) {
      placements_[i] = {kRootSegment, segments[i].range.begin, Outcome::kOrphan};
      if (is_leaf(segments[i])) {
        waiting_at(segments[i].range.end, segments[i].end_hash).leaves.push_back(i);
      } else {
        waiting_at(segments[i].range.begin, segments[i].begin_hash).named.push_back(i);
      }
    }
    wait_for_indexed();
  }

  std::vector<Placement> run(const FingerprintHash& fingerprint) {
    std::set<Tenant> tenants;
    for (const NamedSegment& segment : segments_) tenants.insert(segment.tenant);
    for (const Tenant& tenant : tenants) {
      const PrefixHasher empty(prefix_key(fingerprint, tenant));
      auto waiting = take(Position{0}, empty);
      if (waiting) known_.push_back({{kRootSegment, {}, tenant}, tenant, empty, std::move(*waiting)});
    }
    while (!known_.empty()) {
      const Known known = std::move(known_.back());
      known_.pop_back();
      settle(known);
    }
    return std::move(placements_);
  }

 private:
  void wait_for_indexed();
  void wait_on_path(SegmentId id, std::vector<bool>& waits);
  Waiting& waiting_at(Position at, const PrefixHash& hash) { return waiting_[at][hash]; }

  // What waits for the prefix that the hasher has seen. Each prefix is found once.
  std::optional<Waiting> take(Position at, const PrefixHasher& hasher) {
    const auto here = waiting_.find(at);
    if (here == waiting_.end()) return std::nullopt;
    auto entry = here->second.extract(hasher.current());
    if (here->second.empty()) waiting_.erase(here);
    if (entry.empty()) return std::nullopt;
    return std::move(entry.mapped());
  }

  // Segments in the index first: named ones are laid over what is there. Then longest first, so that a shorter copy of
  // the same run is redundant instead of being the beginning of a longer one. Leaves depend on nothing of that.
  void settle(const Known& known) {
    for (const SegmentId id : known.waiting.indexed) {
      push_known(id, known.tenant, hash_along(known.hasher, index_.tokens(id)));
    }
    std::vector<std::size_t> named = known.waiting.named;
    std::ranges::sort(named, std::greater{}, [&](std::size_t i) { return std::pair(segments_[i].tokens.size(), i); });
    for (const std::size_t i : named) place(i, known);
    std::vector<std::size_t> leaves = known.waiting.leaves;
    std::ranges::sort(leaves, {}, [&](std::size_t i) { return std::pair(segments_[i].range.begin, i); });
    for (const std::size_t i : leaves) attach(i, known.at);
  }

  struct Found {
    PrefixHasher hasher;
    Waiting waiting;
  };

  // Hashes on along the tokens; gives the prefixes on the way, the last included, that somebody waits for.
  std::vector<Found> hash_along(PrefixHasher hasher, TokenSpan tokens) {
    std::vector<Found> found;
    const Position end = hasher.position() + tokens.size();
    for (auto wanted = waiting_.upper_bound(hasher.position()); !tokens.empty();) {
      const Position stop = wanted == waiting_.end() ? end : std::min(end, wanted->first);
      const std::size_t count = stop - hasher.position();
      hasher.append(tokens.first(count));
      tokens = tokens.subspan(count);
      if (auto waiting = take(stop, hasher)) found.push_back({hasher, std::move(*waiting)});
      wanted = waiting_.upper_bound(stop);
    }
    return found;
  }

  void push_known(SegmentId id, const Tenant& tenant, std::vector<Found> found) {
    for (Found& prefix : found) {
      known_.push_back({{id, prefix.hasher.position()}, tenant, prefix.hasher, std::move(prefix.waiting)});
    }
  }

  void place(std::size_t i, const Known& known);
  void attach(std::size_t i, Cursor at);

  PrefixIndex& index_;
  const std::vector<NamedSegment>& segments_;
  std::vector<Placement> placements_;
  std::map<Position, std::unordered_map<PrefixHash, Waiting>> waiting_;
  std::vector<Known> known_;
};

// Of what the index holds already only the paths to names that somebody waits for are hashed: those that end a segment,
// and, for names that are no end of anything known or named, all that go through their position.
void Rebuild::wait_for_indexed() {
  std::vector<SegmentId> rows;
  for (std::uint32_t i = 1; i < index_.id_bound(); ++i) {
    if (index_.contains(SegmentId{i}) && index_.info(SegmentId{i}).kind == format::PartKind::kRows) {
      rows.push_back(SegmentId{i});
    }
  }
  if (rows.empty()) return;
  std::unordered_set<PrefixHash> ends;
  for (const NamedSegment& segment : segments_) {
    if (!is_leaf(segment)) ends.insert(segment.end_hash);
  }
  std::vector<SegmentId> wanted;
  for (const SegmentId id : rows) {
    const SegmentInfo& info = index_.info(id);
    const auto here = waiting_.find(info.range.end);
    if (here == waiting_.end() || !here->second.contains(info.end_hash)) continue;
    wanted.push_back(id);
    ends.insert(info.end_hash);
  }
  std::set<Position> within;
  for (const auto& [at, names] : waiting_) {
    const auto is_end = [&](const auto& name) { return ends.contains(name.first); };
    if (at > Position{} && !std::ranges::all_of(names, is_end)) within.insert(at);
  }
  for (const SegmentId id : rows) {
    const TokenRange range = index_.info(id).range;
    const auto next = within.upper_bound(range.begin);
    if (next != within.end() && *next < range.end) wanted.push_back(id);
  }
  std::vector<bool> waits(index_.id_bound());
  for (const SegmentId id : wanted) wait_on_path(id, waits);
}

void Rebuild::wait_on_path(SegmentId id, std::vector<bool>& waits) {
  for (; id != kRootSegment && !waits[id.value()]; id = index_.info(id).parent) {
    waits[id.value()] = true;
    waiting_at(index_.info(id).range.begin, index_.info(id).begin_hash).indexed.push_back(id);
  }
}

// Everything but window rows is of one position; nothing is attached to the empty prefix.
bool has_a_leafs_range(const NamedSegment& leaf) {
  if (leaf.range.end == Position{}) return false;
  if (leaf.kind == format::PartKind::kWindowRows) return leaf.range.begin < leaf.range.end;
  return leaf.range.empty();
}

bool has_its_size(const NamedSegment& segment) {
  return !segment.tokens.empty() && segment.range.begin < segment.range.end &&
         segment.tokens.size() == segment.range.size();
}

void Rebuild::place(std::size_t i, const Known& known) {
  const NamedSegment& segment = segments_[i];
  // The whole segment is verified before any of it counts: names found along wrong tokens are not known.
  PrefixHasher whole = known.hasher;
  if (has_its_size(segment)) whole.append(segment.tokens);
  if (!has_its_size(segment) || whole.current() != segment.end_hash || segment.tenant != known.tenant) {
    placements_[i].outcome = Outcome::kWrongHash;
    return;
  }
  const Cursor reached = index_.advance(known.at, segment.tokens);
  const std::size_t known_tokens = reached.at - segment.range.begin;
  placements_[i] = {kRootSegment, reached.at, Outcome::kRedundant};
  if (reached.at == segment.range.end) {
    if (auto waiting = take(reached.at, whole)) known_.push_back({reached, known.tenant, whole, std::move(*waiting)});
    return;
  }
  PrefixHasher hasher = known.hasher;
  hasher.append(segment.tokens.first(known_tokens));
  const TokenSpan fresh = segment.tokens.subspan(known_tokens);
  const SegmentId id = index_.insert(reached, fresh, hasher.current(), segment.end_hash, segment.origin);
  placements_[i] = {id, reached.at, Outcome::kPlaced};
  push_known(id, known.tenant, hash_along(hasher, fresh));
}

void Rebuild::attach(std::size_t i, Cursor at) {
  const NamedSegment& leaf = segments_[i];
  if (!has_a_leafs_range(leaf)) {
    placements_[i].outcome = Outcome::kWrongHash;
    return;
  }
  // Segments may be cut elsewhere than when the window was captured, if files overlap.
  if (leaf.kind == format::PartKind::kWindowRows && leaf.range.begin < index_.info(at.segment).range.begin) return;
  if (index_.attached(at, leaf.kind) != kRootSegment) {
    placements_[i] = {kRootSegment, leaf.range.end, Outcome::kRedundant};
    return;
  }
  const SegmentId id = index_.attach(at, leaf.kind, leaf.range.begin, leaf.begin_hash, leaf.end_hash);
  placements_[i] = {id, leaf.range.begin, Outcome::kPlaced};
}

}  // namespace

std::vector<Placement> rebuild(PrefixIndex& index, const FingerprintHash& fingerprint,
                               const std::vector<NamedSegment>& segments) {
  return Rebuild(index, segments).run(fingerprint);
}

}  // namespace kvkeep::index
