#include "policy/evict_order.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <utility>

namespace kvkeep::policy {

namespace {

// So many are sorted anew with each call, if the half-life changed: requests wait meanwhile.
constexpr int kSortedAtOnce = 64;

}  // namespace

// ---- what is known ----

EvictOrder::Known& EvictOrder::known(SegmentId segment) {
  if (segment.value() >= known_.size()) known_.resize(segment.value() + 1);
  return known_[segment.value()];
}

EvictOrder::Place EvictOrder::place(std::uint32_t id, std::int64_t half_life_ns) const {
  const Known& of = known_[id];
  return {Score::rank(of.log_worth, of.last_used_ns, half_life_ns), of.last_used_ns, -std::int64_t{of.begin.value()},
          id};
}

void EvictOrder::put(const EvictCandidate& candidate) {
  sort_some();
  const std::uint32_t id = candidate.segment.value();
  Known added = known(candidate.segment);
  added.last_used_ns = candidate.last_used_ns;
  added.bytes = candidate.bytes;
  added.parent = candidate.parent;
  added.base = candidate.base;
  added.kept_until_ns = candidate.kept_until_ns;
  added.begin = candidate.begin;
  added.here = !(shape_.needs_points && candidate.absent);
  if (shape_.needs_points) {
    added.rows = candidate.kind == CandidateKind::kRows;
    worth_.put(candidate);
    added.log_worth = worth_.log_worth(candidate.segment);
  } else {
    added.log_worth = std::log2(score_->worth(candidate));
  }
  if (!added.here) {
    forget(id);
  } else if (added != known_[id]) {
    set_known(id, added);
  }
  take_worth();
}

void EvictOrder::erase(SegmentId segment) {
  sort_some();
  if (segment.value() < known_.size()) forget(segment.value());
  if (!shape_.needs_points) return;
  worth_.erase(segment);
  take_worth();
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

// What others are worth now.
void EvictOrder::take_worth() {
  if (!shape_.needs_points) return;
  for (const SegmentId changed : worth_.take_changed()) {
    const std::uint32_t id = changed.value();
    if (id >= known_.size() || !known_[id].here) continue;
    const double log_worth = worth_.log_worth(changed);
    if (log_worth == known_[id].log_worth) continue;
    if (known_[id].below == 0) sort_out(id);
    known_[id].log_worth = log_worth;
    if (known_[id].below == 0) sort_in(id);
  }
}

// ---- sorting ----

void EvictOrder::sort_in(std::uint32_t id) {
  order_.of(known_[id]).insert(place(id, order_.half_life_ns));
  if (next_ && id < next_id_) next_->of(known_[id]).insert(place(id, next_->half_life_ns));
}

void EvictOrder::sort_out(std::uint32_t id) {
  order_.of(known_[id]).erase(place(id, order_.half_life_ns));
  if (next_ && id < next_id_) next_->of(known_[id]).erase(place(id, next_->half_life_ns));
}

void EvictOrder::set_half_life(std::int64_t half_life_ns) {
  wanted_half_life_ns_ = half_life_ns;
  sort_some();
}

// The former order goes, then the next one is made; when it is whole, it decides.
void EvictOrder::sort_some() {
  if (!next_ && former_.size() == 0 && wanted_half_life_ns_ == order_.half_life_ns) return;
  int left = kSortedAtOnce;
  for (Places& places : former_.kinds) {
    for (; left > 0 && !places.empty(); --left) places.erase(places.begin());
  }
  if (former_.size() > 0) return;
  if (!next_) {
    if (wanted_half_life_ns_ == order_.half_life_ns) return;
    next_ = Sorted{wanted_half_life_ns_, {}};
    next_id_ = 0;
  }
  for (; left > 0 && next_id_ < known_.size(); --left) {
    const std::uint32_t id = next_id_++;
    if (known_[id].here && known_[id].below == 0) next_->of(known_[id]).insert(place(id, next_->half_life_ns));
  }
  if (next_id_ < known_.size()) return;
  former_ = std::exchange(order_, std::move(*next_));
  next_.reset();
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

// The root: nothing may leave.
SegmentId EvictOrder::least(const Request& request, const Stays& stays) {
  const Kept& kept_ids = kept(request);
  std::uint32_t kept_one = 0;
  auto rows = order_.kinds[0].begin();
  auto others = order_.kinds[1].begin();
  const auto rows_end = request.points_only ? rows : order_.kinds[0].end();
  const auto others_end = order_.kinds[1].end();
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

// One run: what leaves in it opens the way to what it hung below.
class EvictOrder::Choice {
 public:
  Choice(EvictOrder& order, const Request& request, const Stays& stays)
      : order_(order),
        leaves_(order.order_.kinds[0]),
        stays_(stays),
        kept_(order.kept(request)),
        next_(leaves_.begin()) {}

  // The root: nothing may leave any more.
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
      open_.emplace(kept_.contains(name.value()), order_.place(name.value(), order_.half_life_ns()));
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
  sort_some();
  std::vector<SegmentId> victims;
  if (shape_.needs_points) {
    const SegmentId victim = request.needed > ByteCount{} ? least(request, stays) : kRootSegment;
    if (victim != kRootSegment) victims.push_back(victim);
    return victims;
  }
  Choice choice(*this, request, stays);
  for (ByteCount freed; freed < request.needed && victims.size() < request.most;) {
    const SegmentId next = choice.take();
    if (next == kRootSegment) break;
    freed += known_[next.value()].bytes;
    victims.push_back(next);
  }
  return victims;
}

}  // namespace kvkeep::policy
