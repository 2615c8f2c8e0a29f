#pragma once

// The order of leaving of one tier, kept as its candidates change, for models whose rows are all: there every candidate
// has a value of its own. choose_victims() (evict.h) answers the same from a view of everything, at that cost; it is
// the naive twin, and what decides where candidates need each other (points, windows).
//
// Pure memory. Not thread safe.

#include <cstdint>
#include <functional>
#include <set>
#include <tuple>
#include <unordered_set>
#include <vector>

#include "base/types.h"
#include "policy/evict.h"
#include "policy/score.h"

namespace kvkeep::policy {

class EvictOrder {
 public:
  explicit EvictOrder(const Score& score = kByValue) : score_(&score) {}

  // Adds a candidate, or replaces what was known of it. Of its fields `pinned` and those for EvictView::needs_points do
  // not count, `base` apart. Cost: O(log n).
  void put(const EvictCandidate& candidate);
  void erase(SegmentId segment);
  // Recency counts by another half-life from now on. Cost: O(n log n).
  void set_half_life(std::int64_t half_life_ns);
  std::int64_t half_life_ns() const { return half_life_ns_; }

  struct Request {
    ByteCount needed;
    std::size_t most = SIZE_MAX;  // victims
    std::int64_t now_ns = 0;
    ByteCount kept_room = {};  // see EvictView
  };
  // Victims in the order they should leave, each child before its parent; they stay known until erase(). What `stays`
  // says true of does not leave, nor does what it hangs below. Cost: O(log n) for each victim and each that stays, and
  // O(those that somebody asked to keep).
  std::vector<SegmentId> choose(const Request& request, const std::function<bool(SegmentId)>& stays) const;

  std::size_t size() const { return size_; }
  ByteCount memory() const { return ByteCount{known_.capacity() * sizeof(Known) + leaves_.size() * 64}; }

 private:
  // By rank, then age, then the end of a prefix before its beginning.
  struct Place {
    double rank = 0;
    std::int64_t last_used_ns = 0;
    std::int64_t before_begin = 0;
    std::uint32_t id = 0;
    auto operator<=>(const Place&) const = default;
  };
  struct Known {
    Place place;
    ByteCount bytes;
    SegmentId parent;
    SegmentId base;
    std::uint32_t below = 0;  // of those here it is the parent or base of so many
    std::int64_t kept_until_ns = 0;
    Position begin;
    bool here = false;
  };
  using Kept = std::unordered_set<std::uint32_t>;
  class Choice;

  Known& known(SegmentId segment);
  void count_below(const Known& child, bool more);
  void forget(Known& known);
  Kept kept(const Request& request) const;

  const Score* score_;
  std::int64_t half_life_ns_ = kLongestHalfLifeNs;
  std::vector<Known> known_;                                                   // by id
  std::set<Place> leaves_;                                                     // those that nothing here hangs below
  std::set<std::tuple<std::int64_t, Position, std::uint32_t>> asked_to_keep_;  // the longest first
  std::size_t size_ = 0;
};

}  // namespace kvkeep::policy
