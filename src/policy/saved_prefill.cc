#include "policy/saved_prefill.h"

#include <algorithm>

namespace kvkeep::policy {

namespace {

bool is_rows(const EvictCandidate& candidate) { return candidate.kind == CandidateKind::kRows; }

// Returns true if nothing differs that concerns others.
bool same_to_others(const EvictCandidate& a, const EvictCandidate& b) {
  if (a.above != b.above || a.begin != b.begin || a.tokens != b.tokens || a.kind != b.kind) return false;
  return is_rows(a) || (a.bytes == b.bytes && a.outlook == b.outlook);
}

}  // namespace

// ---- candidates ----

void SavedPrefill::make_node(SegmentId segment) {
  if (segment.value() >= nodes_.size()) nodes_.resize(segment.value() + 1);
}

// The segment in which it hangs, if that is known; else the root.
SegmentId SavedPrefill::above(SegmentId segment) const {
  const SegmentId named = node(segment).known.above;
  return named != kRootSegment && node(named).here ? named : kRootSegment;
}

void SavedPrefill::put(const EvictCandidate& candidate) {
  const SegmentId segment = candidate.segment;
  make_node(std::max(segment, candidate.above));
  changed_.push_back(segment);
  if (node(segment).here && same_to_others(node(segment).known, candidate)) {
    node(segment).known = candidate;
    return;
  }
  erase(segment);
  node(segment).known = candidate;
  node(segment).here = true;
  hang(segment);
}

void SavedPrefill::erase(SegmentId segment) {
  if (segment.value() >= nodes_.size() || !node(segment).here) return;
  unhang(segment);
  node(segment).here = false;
  if (is_rows(node(segment).known)) renew_all(segment);
}

// The segment came or went: entries that were there before it, or stay, have another place.
void SavedPrefill::renew_all(SegmentId segment) {
  const std::vector<SegmentId> leaves = node(segment).leaves;
  for (const SegmentId leaf : leaves) renew_position(leaf);
  if (!leaves.empty() && window_tokens_ > 0) renew_positions(segment, {Position{}, end_of(leaves.back())});
  note_followers(segment, node(segment).known.begin);
}

void SavedPrefill::hang(SegmentId segment) {
  const EvictCandidate known = node(segment).known;
  if (is_rows(known)) {
    link(segment);
    if (node(segment).reasons > 0) add_reason(known.above);
    return renew_all(segment);
  }
  if (known.above == kRootSegment) return;
  std::vector<SegmentId>& leaves = node(known.above).leaves;
  const auto place = [this](SegmentId leaf) { return std::pair(end_of(leaf), leaf); };
  leaves.insert(std::ranges::upper_bound(leaves, place(segment), {}, place), segment);
  renew_position(segment);
  if (known.kind == CandidateKind::kWindow) renew_positions(known.above, {known.begin, end_of(segment)});
}

void SavedPrefill::unhang(SegmentId segment) {
  const EvictCandidate known = node(segment).known;
  if (is_rows(known)) {
    if (node(segment).reasons > 0) drop_reason(known.above);
    return unlink(segment);
  }
  if (known.above == kRootSegment) return;
  end_position(segment);
  std::erase(node(known.above).leaves, segment);
  if (known.kind == CandidateKind::kWindow) renew_positions(known.above, {known.begin, end_of(segment)});
}

void SavedPrefill::link(SegmentId segment) {
  const SegmentId parent = node(segment).known.above;
  if (parent == kRootSegment) return;
  const SegmentId next = std::exchange(node(parent).first_below, segment);
  node(segment).next = next;
  node(segment).previous = kRootSegment;
  if (next != kRootSegment) node(next).previous = segment;
}

void SavedPrefill::unlink(SegmentId segment) {
  const Node& leaving = node(segment);
  if (leaving.known.above == kRootSegment) return;
  if (leaving.previous == kRootSegment) {
    node(leaving.known.above).first_below = leaving.next;
  } else {
    node(leaving.previous).next = leaving.next;
  }
  if (leaving.next != kRootSegment) node(leaving.next).previous = leaving.previous;
}

// ---- restorable positions ----

void SavedPrefill::add_reason(SegmentId segment) {
  while (segment != kRootSegment && node(segment).reasons++ == 0 && node(segment).here) {
    changed_.push_back(segment);
    segment = node(segment).known.above;
  }
}

void SavedPrefill::drop_reason(SegmentId segment) {
  while (segment != kRootSegment && --node(segment).reasons == 0 && node(segment).here) {
    changed_.push_back(segment);
    segment = node(segment).known.above;
  }
}

// The windows that may be completed by those of a segment that overlap `changed`: in it, and further down.
void SavedPrefill::renew_positions(SegmentId segment, TokenRange changed) {
  const Position far = changed.end + window_tokens_;
  std::vector<SegmentId> pending{segment};
  while (!pending.empty()) {
    const SegmentId here = pending.back();
    pending.pop_back();
    const std::vector<SegmentId> leaves = node(here).leaves;
    for (const SegmentId leaf : leaves) {
      if (node(leaf).known.begin > changed.begin && end_of(leaf) < far) renew_position(leaf);
    }
    for (SegmentId below = node(here).first_below; below != kRootSegment; below = node(below).next) {
      const Position begin = node(below).known.begin;
      if (begin > changed.begin && begin < far) pending.push_back(below);
    }
  }
}

void SavedPrefill::renew_position(SegmentId leaf) {
  std::vector<SegmentId> needs = needed_for(leaf);
  if (needs == node(leaf).needs) return;
  end_position(leaf);
  if (needs.empty()) return;
  for (const SegmentId needed : needs) {
    std::vector<SegmentId>& positions = node(needed).needed_by;
    positions.insert(std::ranges::upper_bound(positions, leaf), leaf);
    changed_.push_back(needed);
  }
  node(leaf).needs = std::move(needs);
  add_reason(node(leaf).known.above);
  note_followers(node(leaf).known.above, end_of(leaf));
}

void SavedPrefill::end_position(SegmentId leaf) {
  const std::vector<SegmentId> needs = std::exchange(node(leaf).needs, {});
  if (needs.empty()) return;
  for (const SegmentId needed : needs) {
    std::erase(node(needed).needed_by, leaf);
    changed_.push_back(needed);
  }
  drop_reason(node(leaf).known.above);
  note_followers(node(leaf).known.above, end_of(leaf));
}

// Returns the leaf, and windows before it until they cover a whole window that ends where it does; empty if some are
// missing.
std::vector<SegmentId> SavedPrefill::needed_for(SegmentId leaf) const {
  const EvictCandidate& last = node(leaf).known;
  if (!node(leaf).here || is_rows(last) || above(leaf) == kRootSegment) return {};
  std::vector<SegmentId> needs{leaf};
  if (last.kind == CandidateKind::kPoint) return needs;
  const std::size_t end = end_of(leaf).value();
  const Position from = Position{} + (end - std::min<std::size_t>(end, window_tokens_));
  Position have = last.begin;
  for (SegmentId segment = above(leaf); have > from;) {
    if (segment == kRootSegment) return {};
    if (have <= node(segment).known.begin) {
      segment = above(segment);
      continue;
    }
    const SegmentId before = window_before(segment, have);
    if (before == kRootSegment) return {};
    needs.push_back(before);
    have = node(before).known.begin;
  }
  return needs;
}

// The window of the segment that reaches `end` and begins furthest before it.
SegmentId SavedPrefill::window_before(SegmentId segment, Position end) const {
  SegmentId best = kRootSegment;
  for (const SegmentId leaf : node(segment).leaves) {
    const EvictCandidate& known = node(leaf).known;
    if (known.kind != CandidateKind::kWindow || known.begin >= end || end_of(leaf) < end) continue;
    const auto order = [this](SegmentId id) { return std::pair(node(id).known.begin, id); };
    if (best == kRootSegment || order(leaf) < order(best)) best = leaf;
  }
  return best;
}

// The restorable positions that save the prefill from this one, if there is one, or else from before it: on each
// branch the first.
void SavedPrefill::note_followers(SegmentId segment, Position at) {
  std::vector<std::pair<SegmentId, Position>> pending{{segment, at}};
  while (!pending.empty()) {
    const auto [here, from] = pending.back();
    pending.pop_back();
    bool found = false;
    Position first;
    for (const SegmentId leaf : node(here).leaves) {
      if (node(leaf).needs.empty() || end_of(leaf) <= from) continue;
      if (found && end_of(leaf) > first) break;
      first = end_of(leaf);
      found = true;
      for (const SegmentId needed : node(leaf).needs) changed_.push_back(needed);
    }
    for (SegmentId below = node(here).first_below; below != kRootSegment; below = node(below).next) {
      const Position begin = node(below).known.begin;
      if (begin >= from && (!found || begin < first)) pending.emplace_back(below, begin);
    }
  }
}

// ---- saved prefill ----

// Returns the last restorable position on the path to this one; 0 if there is none.
Position SavedPrefill::position_before(SegmentId leaf) const {
  const Position at = end_of(leaf);
  Position limit = at;  // of the segments above, up to where the path leaves them
  for (SegmentId segment = above(leaf); segment != kRootSegment; segment = above(segment)) {
    const std::vector<SegmentId>& leaves = node(segment).leaves;
    for (auto before = leaves.rbegin(); before != leaves.rend(); ++before) {
      if (!node(*before).needs.empty() && end_of(*before) <= limit && end_of(*before) < at) return end_of(*before);
    }
    limit = std::min(limit, node(segment).known.begin);
  }
  return {};
}

double SavedPrefill::per_byte_at(SegmentId leaf) const {
  const Outlook outlook = node(leaf).known.outlook;
  const Position from = outlook == Outlook::kAwaited ? Position{} : position_before(leaf);
  ByteCount bytes;
  for (const SegmentId needed : node(leaf).needs) bytes += node(needed).known.bytes;
  const double saved = saved_per_byte(end_of(leaf) - from, bytes);
  return outlook == Outlook::kPassed ? saved / kPassedShare : saved;
}

double SavedPrefill::per_byte(SegmentId segment) const {
  const Node& wanted = node(segment);
  if (is_rows(wanted.known)) {
    return wanted.reasons > 0 ? saved_per_byte(wanted.known.tokens, wanted.known.bytes) : 0;
  }
  double saved = 0;
  for (const SegmentId leaf : wanted.needed_by) saved += per_byte_at(leaf);
  return saved;
}

}  // namespace kvkeep::policy
