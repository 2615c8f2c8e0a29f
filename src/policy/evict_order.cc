#include "policy/evict_order.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <utility>

namespace kvkeep::policy {

namespace {

double root_of(double saved_per_byte) { return std::sqrt(saved_per_byte); }

}  // namespace

// ---- known candidates ----

EvictOrder::Known& EvictOrder::known(SegmentId segment) {
  if (segment.value() >= known_.size()) known_.resize(segment.value() + 1);
  return known_[segment.value()];
}

EvictOrder::Place EvictOrder::place(std::uint32_t id) const {
  const Known& of = known_[id];
  const double rank = of.saved_root > 0 ? of.clock + of.saved_root : -std::numeric_limits<double>::infinity();
  return {rank, of.last_used_ns, -std::int64_t{of.begin.value()}, id};
}

void EvictOrder::put(const EvictCandidate& candidate) {
  const std::uint32_t id = candidate.segment.value();
  Known added = known(candidate.segment);
  if (!added.here || added.last_used_ns != candidate.last_used_ns) added.clock = clock_.value_or(0);
  added.last_used_ns = candidate.last_used_ns;
  added.bytes = candidate.bytes;
  added.parent = candidate.parent;
  added.base = candidate.base;
  added.kept_until_ns = candidate.kept_until_ns;
  added.begin = candidate.begin;
  added.here = !(shape_.needs_points && candidate.absent);
  if (shape_.needs_points) {
    added.rows = candidate.kind == CandidateKind::kRows;
    saved_.put(candidate);
    added.saved_root = root_of(saved_.per_byte(candidate.segment));
  } else {
    added.saved_root = root_of(saved_per_byte(candidate.tokens, candidate.bytes));
  }
  if (!added.here) {
    forget(id);
  } else if (added != known_[id]) {
    set_known(id, added);
  }
  take_changed();
}

void EvictOrder::erase(SegmentId segment) {
  if (segment.value() < known_.size()) forget(segment.value());
  if (!shape_.needs_points) return;
  saved_.erase(segment);
  take_changed();
}

void EvictOrder::set_known(std::uint32_t id, Known added) {
  forget(id);
  known_[id] = added;
  ++size_;
  if (added.below == 0) sort_in(id);
  if (added.kept_until_ns > 0) {
    asked_to_keep_.emplace(-added.kept_until_ns, added.begin, id);
    kept_.reset();
  }
  count_below(added, true);
}

void EvictOrder::forget(std::uint32_t id) {
  const Known gone = known_[id];
  if (!gone.here) return;
  --size_;
  sort_out(id);
  known_[id].here = false;
  if (gone.kept_until_ns > 0) {
    asked_to_keep_.erase({-gone.kept_until_ns, gone.begin, id});
    kept_.reset();
  }
  count_below(gone, false);
}

void EvictOrder::count_below(const Known& child, bool more) {
  for (const SegmentId name : {child.parent, child.base}) {
    if (name == kRootSegment) continue;
    Known& above = known(name);
    if (above.here && above.below == 0) sort_out(name.value());
    more ? ++above.below : --above.below;
    if (above.here && above.below == 0) sort_in(name.value());
  }
}

// Sorts the others anew whose saved prefill changed.
void EvictOrder::take_changed() {
  if (!shape_.needs_points) return;
  for (const SegmentId changed : saved_.take_changed()) {
    const std::uint32_t id = changed.value();
    if (id >= known_.size() || !known_[id].here) continue;
    const double root = root_of(saved_.per_byte(changed));
    if (root == known_[id].saved_root) continue;
    if (known_[id].below == 0) sort_out(id);
    known_[id].saved_root = root;
    if (known_[id].below == 0) sort_in(id);
  }
}

// ---- sorting ----

void EvictOrder::sort_in(std::uint32_t id) { order_[known_[id].rows ? 0 : 1].insert(place(id)); }

void EvictOrder::sort_out(std::uint32_t id) { order_[known_[id].rows ? 0 : 1].erase(place(id)); }

// While nothing leaves, the clock does not move, so at the first victim it does not tell apart who was used when. It is
// set as if the tier had been filled once since the oldest use: while a tier is filled anew, the clock advances by the
// mean root of saved prefill, of points and windows where these are needed, for rows leave with them.
void EvictOrder::start_clock() {
  std::vector<std::uint32_t> oldest_first;
  double bytes = 0;
  double decisive = 0;  // bytes of the kind that decides
  double roots = 0;     // their saved roots, times bytes
  for (std::uint32_t id = 0; id < known_.size(); ++id) {
    if (!known_[id].here) continue;
    oldest_first.push_back(id);
    const auto own = static_cast<double>(known_[id].bytes.value());
    bytes += own;
    if (shape_.needs_points && known_[id].rows) continue;
    decisive += own;
    roots += own * known_[id].saved_root;
  }
  std::ranges::sort(oldest_first, {}, [this](std::uint32_t id) { return std::pair(known_[id].last_used_ns, id); });
  const double per_byte = decisive > 0 ? roots / decisive / bytes : 0;  // the clock goes on by so much
  order_ = {};
  double before = 0;
  double same_time = 0;  // the clock of those that were used at the same time
  std::int64_t used_ns = INT64_MIN;
  for (const std::uint32_t id : oldest_first) {
    if (known_[id].last_used_ns != used_ns) same_time = per_byte * before;
    used_ns = known_[id].last_used_ns;
    known_[id].clock = same_time;
    before += static_cast<double>(known_[id].bytes.value());
    if (known_[id].below == 0) sort_in(id);
  }
  clock_ = per_byte * bytes;
}

// ---- choosing ----

const EvictOrder::Kept& EvictOrder::kept(const Request& request) {
  const bool holds =
      kept_ && kept_->room == request.kept_room && kept_->from_ns <= request.now_ns && request.now_ns < kept_->until_ns;
  if (holds) return kept_->ids;
  kept_ = KeptAt{{}, request.kept_room, request.now_ns, INT64_MAX};
  ByteCount total;
  for (const auto& [minus_until_ns, begin, id] : asked_to_keep_) {
    const std::int64_t until_ns = -minus_until_ns;
    if (until_ns <= request.now_ns) break;
    if (until_ns - request.now_ns > kLongestKeepNs) {
      kept_->until_ns = std::min(kept_->until_ns, until_ns - kLongestKeepNs);
      continue;
    }
    total += known_[id].bytes;
    if (total > request.kept_room) break;
    kept_->until_ns = std::min(kept_->until_ns, until_ns);
    kept_->ids.insert(id);
  }
  return kept_->ids;
}

// Returns the root if nothing may leave.
SegmentId EvictOrder::least(const Request& request, const Stays& stays) {
  const Kept& kept_ids = kept(request);
  std::uint32_t kept_one = 0;
  auto rows = order_[0].begin();
  auto others = order_[1].begin();
  const auto rows_end = request.points_only ? rows : order_[0].end();
  const auto others_end = order_[1].end();
  while (rows != rows_end || others != others_end) {
    const bool from_rows = rows != rows_end && (others == others_end || *rows < *others);
    const std::uint32_t id = (from_rows ? rows++ : others++)->id;
    const bool is_kept = kept_ids.contains(id);
    if ((is_kept && kept_one != 0) || stays(SegmentId{id})) continue;
    if (!is_kept) return SegmentId{id};
    kept_one = id;
  }
  return SegmentId{kept_one};
}

// One run: a victim opens the way to the segment above it.
class EvictOrder::Choice {
 public:
  Choice(EvictOrder& order, const Request& request, const Stays& stays)
      : order_(order), leaves_(order.order_[0]), stays_(stays), kept_(order.kept(request)), next_(leaves_.begin()) {}

  // Returns the root if nothing may leave any more.
  SegmentId take() {
    skip();
    const bool from_order = next_ != leaves_.end() && (open_.empty() || Open{false, *next_} < *open_.begin());
    if (!from_order && open_.empty()) return kRootSegment;
    const Place taken = from_order ? *next_++ : open_.extract(open_.begin()).value().second;
    open_above(order_.known_[taken.id]);
    return SegmentId{taken.id};
  }

 private:
  using Open = std::pair<bool, Place>;  // kept: after all that is not

  void skip() {
    for (; next_ != leaves_.end(); ++next_) {
      const bool stays = stays_(SegmentId{next_->id});
      if (!stays && !kept_.contains(next_->id)) return;
      if (!stays) open_.emplace(true, *next_);
    }
  }

  void open_above(const Known& gone) {
    for (const SegmentId name : {gone.parent, gone.base}) {
      if (name == kRootSegment) continue;
      const Known& above = order_.known_[name.value()];
      if (!above.here || ++left_below_[name.value()] < above.below || stays_(name)) continue;
      open_.emplace(kept_.contains(name.value()), order_.place(name.value()));
    }
  }

  const EvictOrder& order_;
  const Places& leaves_;
  const Stays& stays_;
  const Kept& kept_;
  Places::const_iterator next_;
  std::set<Open> open_;
  std::unordered_map<std::uint32_t, std::uint32_t> left_below_;  // children that left in this run
};

std::vector<SegmentId> EvictOrder::choose(const Request& request, const Stays& stays) {
  std::vector<SegmentId> victims;
  if (request.needed == ByteCount{}) return victims;
  if (!clock_) start_clock();
  const auto add = [&](SegmentId victim) {
    victims.push_back(victim);
    clock_ = std::max(*clock_, place(victim.value()).rank);
  };
  if (shape_.needs_points) {
    const SegmentId victim = least(request, stays);
    if (victim != kRootSegment) add(victim);
    return victims;
  }
  Choice choice(*this, request, stays);
  for (ByteCount freed; freed < request.needed && victims.size() < request.most;) {
    const SegmentId next = choice.take();
    if (next == kRootSegment) break;
    freed += known_[next.value()].bytes;
    add(next);
  }
  return victims;
}

}  // namespace kvkeep::policy
