#include "policy/evict_order.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace kvkeep::policy {

EvictOrder::Known& EvictOrder::known(SegmentId segment) {
  if (segment.value() >= known_.size()) known_.resize(segment.value() + 1);
  return known_[segment.value()];
}

void EvictOrder::put(const EvictCandidate& candidate) {
  Known& added = known(candidate.segment);
  const Place place{score_->rank(candidate, half_life_ns_), candidate.last_used_ns,
                    -std::int64_t{candidate.begin.value()}, candidate.segment.value()};
  const bool same = added.here && added.place == place && added.bytes == candidate.bytes &&
                    added.parent == candidate.parent && added.base == candidate.base &&
                    added.kept_until_ns == candidate.kept_until_ns;
  if (same) return;
  forget(added);
  added.place = place;
  added.bytes = candidate.bytes;
  added.parent = candidate.parent;
  added.base = candidate.base;
  added.kept_until_ns = candidate.kept_until_ns;
  added.begin = candidate.begin;
  added.here = true;
  ++size_;
  if (added.below == 0) leaves_.insert(added.place);
  if (added.kept_until_ns > 0) asked_to_keep_.emplace(-added.kept_until_ns, added.begin, place.id);
  count_below(Known(added), true);
}

void EvictOrder::erase(SegmentId segment) {
  if (segment.value() < known_.size()) forget(known_[segment.value()]);
}

void EvictOrder::forget(Known& gone) {
  if (!std::exchange(gone.here, false)) return;
  --size_;
  leaves_.erase(gone.place);
  if (gone.kept_until_ns > 0) asked_to_keep_.erase({-gone.kept_until_ns, gone.begin, gone.place.id});
  count_below(Known(gone), false);
}

void EvictOrder::set_half_life(std::int64_t half_life_ns) {
  const auto change = [&](std::int64_t last_used_ns) {
    const auto used_ns = static_cast<double>(last_used_ns);
    return used_ns / static_cast<double>(half_life_ns) - used_ns / static_cast<double>(half_life_ns_);
  };
  std::vector<Place> places;
  for (Known& each : known_) {
    if (!each.here) continue;
    each.place.rank += change(each.place.last_used_ns);
    if (each.below == 0) places.push_back(each.place);
  }
  std::ranges::sort(places);
  leaves_ = {places.begin(), places.end()};
  half_life_ns_ = half_life_ns;
}

// The child is a copy: known() may move what is known.
void EvictOrder::count_below(const Known& child, bool more) {
  for (const SegmentId name : {child.parent, child.base}) {
    if (name == kRootSegment) continue;
    Known& above = known(name);
    more ? ++above.below : --above.below;
    if (!above.here) continue;
    if (above.below == 0) leaves_.insert(above.place);
    if (above.below == 1 && more) leaves_.erase(above.place);
  }
}

EvictOrder::Kept EvictOrder::kept(const Request& request) const {
  Kept kept;
  ByteCount total;
  for (const auto& [minus_until_ns, begin, id] : asked_to_keep_) {
    const std::int64_t left_ns = -minus_until_ns - request.now_ns;
    if (left_ns <= 0) break;
    if (left_ns > kLongestKeepNs) continue;
    total += known_[id].bytes;
    if (total > request.kept_room) break;
    kept.insert(id);
  }
  return kept;
}

// One run: what leaves in it opens the way to what it hung below.
class EvictOrder::Choice {
 public:
  Choice(const EvictOrder& order, const Request& request, const std::function<bool(SegmentId)>& stays)
      : order_(order), stays_(stays), kept_(order.kept(request)), next_(order.leaves_.begin()) {}

  // The root: nothing may leave any more.
  SegmentId take() {
    skip();
    const bool from_order = next_ != order_.leaves_.end() && (open_.empty() || Open{false, *next_} < *open_.begin());
    if (!from_order && open_.empty()) return kRootSegment;
    const Place taken = from_order ? *next_++ : open_.extract(open_.begin()).value().second;
    open_above(order_.known_[taken.id]);
    return SegmentId{taken.id};
  }

 private:
  using Open = std::pair<bool, Place>;  // kept: after all that is not

  void skip() {
    for (; next_ != order_.leaves_.end(); ++next_) {
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
      open_.emplace(kept_.contains(name.value()), above.place);
    }
  }

  const EvictOrder& order_;
  const std::function<bool(SegmentId)>& stays_;
  const Kept kept_;
  std::set<Place>::const_iterator next_;
  std::set<Open> open_;
  std::unordered_map<std::uint32_t, std::uint32_t> left_below_;  // children that left in this run
};

std::vector<SegmentId> EvictOrder::choose(const Request& request, const std::function<bool(SegmentId)>& stays) const {
  std::vector<SegmentId> victims;
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
