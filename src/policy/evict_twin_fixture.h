#pragma once

// The naive twin of EvictOrder, for this room's tests: before each victim it works everything out anew, from all
// candidates.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "policy/evict_order.h"

namespace kvkeep::policy {

using CandidatesById = std::map<SegmentId, EvictCandidate>;

// Restorable positions, and what they make candidates save.
class SavedTwin {
 public:
  SavedTwin(const CandidatesById& all, std::uint32_t window_tokens) : all_(all), window_tokens_(window_tokens) {
    for (const auto& [id, candidate] : all) {
      if (candidate.kind == CandidateKind::kRows || !in_a_segment(candidate)) continue;
      Place place{end_of(candidate), find(candidate.above), {&candidate}, candidate.outlook};
      if (candidate.kind == CandidateKind::kPoint || complete(place)) places_.push_back(place);
    }
  }

  double per_byte(const EvictCandidate& candidate) const {
    if (candidate.kind == CandidateKind::kRows) {
      const bool of_use =
          std::ranges::any_of(places_, [&](const Place& place) { return below(place.home, candidate); });
      return of_use ? saved_per_byte(candidate.tokens, candidate.bytes) : 0;
    }
    double saved = 0;
    for (const Place& place : places_) {
      if (std::ranges::find(place.leaves, &candidate) == place.leaves.end()) continue;
      ByteCount bytes;
      for (const EvictCandidate* leaf : place.leaves) bytes += leaf->bytes;
      const std::uint32_t begin = place.outlook == Outlook::kAwaited ? 0 : before(place);
      saved += saved_per_byte(place.at - begin, bytes) / (place.outlook == Outlook::kPassed ? 4 : 1);
    }
    return saved;
  }

 private:
  struct Place {
    std::uint32_t at = 0;
    const EvictCandidate* home = nullptr;
    std::vector<const EvictCandidate*> leaves;
    Outlook outlook = Outlook::kOpen;
  };

  static std::uint32_t end_of(const EvictCandidate& candidate) { return candidate.begin.value() + candidate.tokens; }
  const EvictCandidate* find(SegmentId segment) const {
    const auto found = all_.find(segment);
    return found == all_.end() ? nullptr : &found->second;
  }
  bool below(const EvictCandidate* segment, const EvictCandidate& above) const {
    for (; segment != nullptr; segment = find(segment->above)) {
      if (segment == &above) return true;
    }
    return false;
  }
  bool in_a_segment(const EvictCandidate& leaf) const { return find(leaf.above) != nullptr; }
  // Every position of the window before the place lies in a leaf of the segment that holds it on this path.
  bool complete(Place& place) const {
    for (std::uint32_t back = 1; back <= std::min(place.at, window_tokens_); ++back) {
      const std::uint32_t position = place.at - back;
      const EvictCandidate* segment = place.home;
      while (segment != nullptr && segment->begin.value() > position) segment = find(segment->above);
      const EvictCandidate* holds = nullptr;
      for (const auto& [id, leaf] : all_) {
        const bool in = segment != nullptr && leaf.kind == CandidateKind::kWindow && leaf.above == segment->segment &&
                        leaf.begin.value() <= position && position < end_of(leaf);
        // A leaf of the place that holds it serves; of others the one that begins first.
        if (!in) continue;
        if (std::ranges::find(place.leaves, &leaf) != place.leaves.end()) {
          holds = &leaf;
          break;
        }
        if (holds == nullptr || leaf.begin < holds->begin) holds = &leaf;
      }
      if (holds == nullptr) return false;
      if (std::ranges::find(place.leaves, holds) == place.leaves.end()) place.leaves.push_back(holds);
    }
    return true;
  }
  std::uint32_t before(const Place& place) const {
    std::uint32_t best = 0;
    for (const Place& other : places_) {
      if (other.at >= place.at) continue;
      std::uint32_t limit = place.at;
      const EvictCandidate* segment = place.home;
      for (; segment != nullptr && segment != other.home; segment = find(segment->above))
        limit = segment->begin.value();
      if (segment != nullptr && other.at <= limit) best = std::max(best, other.at);
    }
    return best;
  }

  const CandidatesById& all_;
  const std::uint32_t window_tokens_;
  std::vector<Place> places_;
};

class EvictTwin {
 public:
  explicit EvictTwin(OrderShape shape = {}) : shape_(shape) {}

  void put(const EvictCandidate& candidate) {
    const auto known = known_.find(candidate.segment);
    const bool was_here = known != known_.end() && !known->second.absent;
    const bool same_use = was_here && known->second.last_used_ns == candidate.last_used_ns;
    if (!same_use) clocks_[candidate.segment] = clock_.value_or(0);
    known_[candidate.segment] = candidate;
  }
  void erase(SegmentId segment) { known_.erase(segment); }

  std::vector<SegmentId> choose(const EvictOrder::Request& request, const EvictOrder::Stays& stays) {
    std::vector<SegmentId> victims;
    if (request.needed > ByteCount{} && !clock_) start_clock();
    const std::set<SegmentId> kept = kept_in(request);
    const CandidatesById before = known_;
    for (ByteCount freed; freed < request.needed && victims.size() < (shape_.needs_points ? 1 : request.most);) {
      const std::optional<Key> least = least_of(request, stays, kept);
      if (!least) break;
      victims.push_back(std::get<SegmentId>(*least));
      clock_ = std::max(*clock_, std::get<1>(*least));
      freed += known_.at(victims.back()).bytes;
      known_.erase(victims.back());
    }
    known_ = before;
    return victims;
  }
  std::size_t size() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(known_, [](const auto& each) { return !each.second.absent; }));
  }

 private:
  using Key = std::tuple<bool, double, std::int64_t, std::int64_t, SegmentId>;

  static double root_of(double saved) { return std::sqrt(saved); }
  std::map<SegmentId, double> roots() const {
    const SavedTwin saved(known_, shape_.window_tokens);
    std::map<SegmentId, double> roots;
    for (const auto& [id, known] : known_) {
      roots[id] = root_of(shape_.needs_points ? saved.per_byte(known) : saved_per_byte(known.tokens, known.bytes));
    }
    return roots;
  }

  std::optional<Key> least_of(const EvictOrder::Request& request, const EvictOrder::Stays& stays,
                              const std::set<SegmentId>& kept) const {
    const std::map<SegmentId, double> root = roots();
    std::optional<Key> least;
    for (const auto& [id, known] : known_) {
      const bool hung_to = std::ranges::any_of(known_, [&](const auto& other) {
        return !other.second.absent && (other.second.parent == id || other.second.base == id);
      });
      const bool stays_rows = request.points_only && known.kind == CandidateKind::kRows;
      if (hung_to || known.absent || stays_rows || stays(id)) continue;
      const double rank = root.at(id) > 0 ? clocks_.at(id) + root.at(id) : -std::numeric_limits<double>::infinity();
      const Key key{kept.contains(id), rank, known.last_used_ns, -std::int64_t{known.begin.value()}, id};
      if (!least || key < *least) least = key;
    }
    return least;
  }

  // By how much of the tier was used before each.
  void start_clock() {
    const std::map<SegmentId, double> root = roots();
    double bytes = 0;
    double decisive = 0;
    double root_bytes = 0;
    for (const auto& [id, known] : known_) {
      if (known.absent) continue;
      bytes += static_cast<double>(known.bytes.value());
      if (shape_.needs_points && known.kind == CandidateKind::kRows) continue;
      decisive += static_cast<double>(known.bytes.value());
      root_bytes += static_cast<double>(known.bytes.value()) * root.at(id);
    }
    const double per_byte = decisive > 0 ? root_bytes / decisive / bytes : 0;
    for (const auto& [id, known] : known_) {
      double before = 0;
      for (const auto& [other_id, other] : known_) {
        if (!other.absent && other.last_used_ns < known.last_used_ns)
          before += static_cast<double>(other.bytes.value());
      }
      clocks_[id] = per_byte * before;
    }
    clock_ = per_byte * bytes;
  }

  // The candidates that a request asked to keep, as many as there is room for: the longest kept first, of a path its
  // beginning.
  std::set<SegmentId> kept_in(const EvictOrder::Request& request) const {
    std::set<SegmentId> kept;
    for (ByteCount total;;) {
      const EvictCandidate* next = nullptr;
      for (const auto& [id, known] : known_) {
        const bool counts = !known.absent && known.kept_until_ns > request.now_ns &&
                            known.kept_until_ns <= request.now_ns + kLongestKeepNs && !kept.contains(id);
        if (!counts) continue;
        const auto order = [](const EvictCandidate& of) { return std::tuple(-of.kept_until_ns, of.begin, of.segment); };
        if (next == nullptr || order(known) < order(*next)) next = &known;
      }
      if (next == nullptr || total + next->bytes > request.kept_room) return kept;
      total += next->bytes;
      kept.insert(next->segment);
    }
  }

  const OrderShape shape_;
  CandidatesById known_;
  std::map<SegmentId, double> clocks_;
  std::optional<double> clock_;
};

// A tier at one time, for tests that go through all small ones.
struct EvictView {
  std::vector<EvictCandidate> candidates;
  OrderShape shape = {};
  std::int64_t now_ns = 0;
  ByteCount kept_room = {};
  bool points_only = false;
  std::set<SegmentId> pinned = {};
  std::set<SegmentId> copies = {};  // another tier has them as well: they are absent when they have left
};

// Plays evictions from it: EvictOrder or its twin learns of each victim before it chooses the next.
template <class Order>
std::vector<SegmentId> victims_of(const EvictView& view, ByteCount needed) {
  Order order(view.shape);
  CandidatesById by_id;
  for (const EvictCandidate& candidate : view.candidates) {
    by_id[candidate.segment] = candidate;
    order.put(candidate);
  }
  std::vector<SegmentId> victims;
  for (ByteCount freed; freed < needed;) {
    const auto next = order.choose({needed - freed, SIZE_MAX, view.now_ns, view.kept_room, view.points_only},
                                   [&](SegmentId id) { return view.pinned.contains(id); });
    if (next.empty()) break;
    for (const SegmentId victim : next) {
      EvictCandidate& left = by_id.at(victim);
      victims.push_back(victim);
      freed += left.bytes;
      left.absent = true;
      view.copies.contains(victim) ? order.put(left) : order.erase(victim);
    }
  }
  return victims;
}

}  // namespace kvkeep::policy
