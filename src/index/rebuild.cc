// rebuild(): from segments that know only the hash of their beginning to a trie.
//
// A worklist of known prefixes. Every segment waits under the name (position, hash) of its beginning; when that prefix
// turns out to be known, the segment's tokens are hashed on from there once, and each name that a segment waits for on
// the way is a newly known prefix. Segments that are in the index already wait in the same way, so that named ones may
// hang below them. A leaf waits under the name of its end and is inserted there.
//
// Most names are the end of another segment. Only the others are looked for within segments: a hash for each position
// where a segment waits would be one for nearly every token of a large directory. What still waits at the end, because
// the segment that ends with its name was lost or lies, is looked for within segments as well.

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "index/prefix_index.h"

namespace kvkeep::index {

namespace {

using Outcome = Placement::Outcome;

// Waiters for one prefix: named segments and leaves by their place in the input, and segments already in the index.
struct Waiting {
  std::vector<std::size_t> named;
  std::vector<std::size_t> leaves;
  std::vector<SegmentId> indexed;
};

bool is_leaf(const NamedSegment& segment) { return segment.kind != format::PartKind::kRows; }

// A prefix that a segment waits for and that is known now.
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
      placements_[i] = {kRootSegment, segments[i].range.begin, Outcome::kOrphan, kRootSegment};
      if (is_leaf(segments[i])) {
        waiting_at(segments[i].range.end, segments[i].end_hash).leaves.push_back(i);
      } else {
        waiting_at(segments[i].range.begin, segments[i].begin_hash).named.push_back(i);
      }
    }
  }

  std::vector<Placement> run(const FingerprintHash& fingerprint) {
    std::set<Tenant> tenants;
    for (const NamedSegment& segment : segments_) tenants.insert(segment.tenant);
    find_ends();
    settle_from(fingerprint, tenants);
    if (look_everywhere()) settle_from(fingerprint, tenants);
    return std::move(placements_);
  }

 private:
  void find_ends();
  bool look_everywhere();
  void look_within();
  void wait_for_indexed();
  void wait_on_path(SegmentId id, std::vector<bool>& waits);
  Waiting& waiting_at(Position at, const PrefixHash& hash) { return waiting_[at][hash]; }
  bool waits_at(Position at, const PrefixHash& hash) const {
    const auto here = waiting_.find(at);
    return here != waiting_.end() && here->second.contains(hash);
  }

  void settle_from(const FingerprintHash& fingerprint, const std::set<Tenant>& tenants) {
    for (const Tenant& tenant : tenants) {
      const PrefixHasher empty(prefix_key(fingerprint, tenant));
      auto waiting = take(Position{0}, empty.current());
      if (waiting) known_.push_back({{kRootSegment, {}, tenant}, tenant, empty, std::move(*waiting)});
    }
    while (!known_.empty()) {
      const Known known = std::move(known_.back());
      known_.pop_back();
      settle(known);
    }
  }

  // Returns the waiters for a prefix that is known now. Each prefix is found once.
  std::optional<Waiting> take(Position at, const PrefixHash& hash) {
    const auto here = waiting_.find(at);
    if (here == waiting_.end()) return std::nullopt;
    auto entry = here->second.extract(hash);
    if (here->second.empty()) {
      waiting_.erase(here);
      within_.erase(at);
    }
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
    for (const std::size_t i : leaves) place_leaf(i, known.at);
  }

  struct Prefix {
    PrefixHasher hasher;
    PrefixHash hash;
  };

  // Hashes on along the tokens; gives the prefixes on the way that segments wait for, and the last one in any case.
  std::vector<Prefix> hash_along(PrefixHasher hasher, TokenSpan tokens) const {
    std::vector<Prefix> found;
    while (!tokens.empty()) {
      const auto within = within_.upper_bound(hasher.position());
      const Position end = hasher.position() + tokens.size();
      const Position stop = within == within_.end() ? end : std::min(end, *within);
      const std::size_t count = stop - hasher.position();
      hasher.append(tokens.first(count));
      tokens = tokens.subspan(count);
      const PrefixHash hash = hasher.current();
      if (tokens.empty() || waits_at(stop, hash)) found.push_back({hasher, hash});
    }
    return found;
  }

  void push_known(SegmentId id, const Tenant& tenant, const std::vector<Prefix>& found) {
    for (const Prefix& prefix : found) push_known({id, prefix.hasher.position()}, tenant, prefix);
  }
  void push_known(Cursor at, const Tenant& tenant, const Prefix& prefix) {
    if (auto waiting = take(at.at, prefix.hash)) known_.push_back({at, tenant, prefix.hasher, std::move(*waiting)});
  }

  void place(std::size_t i, const Known& known);
  void place_leaf(std::size_t i, Cursor at);

  PrefixIndex& index_;
  const std::vector<NamedSegment>& segments_;
  std::vector<Placement> placements_;
  std::map<Position, std::unordered_map<PrefixHash, Waiting>> waiting_;
  std::unordered_set<PrefixHash> ends_;  // of segments, named ones and those in the index that segments wait for
  std::set<Position> within_;            // where names are looked for within segments
  std::vector<Known> known_;
};

void Rebuild::find_ends() {
  ends_.reserve(segments_.size());
  for (const NamedSegment& segment : segments_) {
    if (!is_leaf(segment)) ends_.insert(segment.end_hash);
  }
  wait_for_indexed();
}

// Returns false if nothing waits that was looked for only at the ends of segments.
bool Rebuild::look_everywhere() {
  const bool left = std::ranges::any_of(
      waiting_, [&](const auto& here) { return here.first > Position{} && !within_.contains(here.first); });
  if (!left) return false;
  ends_.clear();
  wait_for_indexed();
  return true;
}

// Names that are no end are looked for within segments.
void Rebuild::look_within() {
  within_.clear();
  for (const auto& [at, names] : waiting_) {
    const auto is_end = [&](const auto& name) { return ends_.contains(name.first); };
    if (at > Position{} && !std::ranges::all_of(names, is_end)) within_.insert(within_.end(), at);
  }
}

// Paths in the index are hashed only if they lead to names that segments wait for: those that end a segment,
// and, for names that are no end of anything known or named, all that go through their position.
void Rebuild::wait_for_indexed() {
  std::vector<SegmentId> wanted;
  for (const auto& [at, names] : waiting_) {
    for (const auto& [hash, waiting] : names) {
      for (const SegmentId id : index_.ending_with(hash)) {
        if (index_.info(id).kind != format::PartKind::kRows || index_.info(id).range.end != at) continue;
        wanted.push_back(id);
        ends_.insert(hash);
      }
    }
  }
  look_within();
  for (std::uint32_t i = 1; !within_.empty() && i < index_.id_bound(); ++i) {
    if (!index_.contains(SegmentId{i}) || index_.info(SegmentId{i}).kind != format::PartKind::kRows) continue;
    const TokenRange range = index_.info(SegmentId{i}).range;
    const auto next = within_.upper_bound(range.begin);
    if (next != within_.end() && *next < range.end) wanted.push_back(SegmentId{i});
  }
  std::vector<bool> waits(index_.id_bound());
  for (const SegmentId id : wanted) wait_on_path(id, waits);
}

void Rebuild::wait_on_path(SegmentId id, std::vector<bool>& waits) {
  for (; id != kRootSegment && !waits[id.value()]; id = index_.info(id).parent) {
    waits[id.value()] = true;
    const SegmentInfo& info = index_.info(id);
    waiting_at(info.range.begin, info.begin_hash).indexed.push_back(id);
    if (info.parent != kRootSegment && info.range.begin < index_.info(info.parent).range.end)
      within_.insert(info.range.begin);
  }
}

// All leaves but window rows have one position; no leaf hangs in the empty prefix.
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
  placements_[i].within = known.at.segment;
  // The whole segment is verified before any of it counts: names found along wrong tokens are not known.
  std::vector<Prefix> found;
  if (has_its_size(segment)) found = hash_along(known.hasher, segment.tokens);
  if (found.empty() || found.back().hash != segment.end_hash || segment.tenant != known.tenant) {
    placements_[i].outcome = Outcome::kWrongHash;
    return;
  }
  const Cursor reached = index_.advance(known.at, segment.tokens);
  placements_[i] = {kRootSegment, reached.at, Outcome::kRedundant, reached.segment};
  if (reached.at == segment.range.end) return push_known(reached, known.tenant, found.back());
  PrefixHasher hasher = known.hasher;
  hasher.append(segment.tokens.first(reached.at - segment.range.begin));
  const TokenSpan fresh = segment.tokens.subspan(reached.at - segment.range.begin);
  const SegmentId id = index_.insert(reached, fresh, hasher.current(), segment.end_hash, segment.origin);
  placements_[i] = {id, reached.at, Outcome::kPlaced, id};
  std::erase_if(found, [&](const Prefix& prefix) { return prefix.hasher.position() <= reached.at; });
  push_known(id, known.tenant, found);
}

void Rebuild::place_leaf(std::size_t i, Cursor at) {
  const NamedSegment& leaf = segments_[i];
  placements_[i].within = at.segment;
  if (!has_a_leafs_range(leaf)) {
    placements_[i].outcome = Outcome::kWrongHash;
    return;
  }
  // Segments may be cut elsewhere than when the window was captured, if files overlap.
  if (leaf.kind == format::PartKind::kWindowRows && leaf.range.begin < index_.info(at.segment).range.begin) return;
  if (index_.leaf(at, leaf.kind) != kRootSegment) {
    placements_[i] = {kRootSegment, leaf.range.end, Outcome::kRedundant, at.segment};
    return;
  }
  const SegmentId id = index_.insert_leaf(at, leaf.kind, leaf.range.begin, leaf.begin_hash, leaf.end_hash);
  placements_[i] = {id, leaf.range.begin, Outcome::kPlaced, at.segment};
}

}  // namespace

std::vector<Placement> rebuild(PrefixIndex& index, const FingerprintHash& fingerprint,
                               const std::vector<NamedSegment>& segments) {
  return Rebuild(index, segments).run(fingerprint);
}

}  // namespace kvkeep::index
