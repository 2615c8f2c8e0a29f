#pragma once

// The order of leaving of one tier, kept as its candidates change. choose_victims() (evict.h) answers the same from a
// view of everything, at that cost; it is the naive twin.
//
// With rows alone every candidate has a value of its own. Where candidates need each other (points, windows) what each
// is worth is kept as well (kept_worth.h), and victims are chosen one at a time: what leaves changes what others are
// worth.
//
// Pure memory. Not thread safe.

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_set>
#include <vector>

#include "base/types.h"
#include "policy/evict.h"
#include "policy/kept_worth.h"
#include "policy/score.h"

namespace kvkeep::policy {

// Whether rows alone put no sequence to stand, and how far back windows must reach: see EvictView.
struct OrderShape {
  bool needs_points = false;
  std::uint32_t window_tokens = 0;
};

class EvictOrder {
 public:
  explicit EvictOrder(const Score& score = kByValue, OrderShape shape = {})
      : score_(&score), shape_(shape), worth_(score, shape.window_tokens) {}

  // Adds a candidate, or replaces what was known of it. `pinned` and `copy` do not count, and of those for
  // EvictView::needs_points only `base`, unless points are needed; then what other tiers alone have must be told as
  // well (`absent`). Cost: O(log n), with points that of KeptWorth::put().
  void put(const EvictCandidate& candidate);
  void erase(SegmentId segment);
  // Recency counts by another half-life, when all is sorted anew: a little of it with each call of the others, until
  // then the one before decides.
  void set_half_life(std::int64_t half_life_ns);
  std::int64_t half_life_ns() const { return order_.half_life_ns; }  // that decides

  struct Request {
    ByteCount needed;
    std::size_t most = SIZE_MAX;  // victims
    std::int64_t now_ns = 0;
    ByteCount kept_room = {};  // see EvictView
    bool points_only = false;  // see EvictView
  };
  using Stays = std::function<bool(SegmentId)>;
  // Victims in the order they should leave, each child before its parent; they stay known until erase(). What `stays`
  // says true of does not leave, nor does what it hangs below. Where points are needed one at most: the next is chosen
  // when it has left. Cost: O(log n) for each victim and each that stays; O(those that somebody asked to keep) when
  // these changed.
  std::vector<SegmentId> choose(const Request& request, const Stays& stays);

  std::size_t size() const { return size_; }
  ByteCount memory() const {
    return ByteCount{known_.capacity() * sizeof(Known) + order_.size() * 80} + worth_.memory();
  }

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
    double log_worth = 0;
    std::int64_t last_used_ns = 0;
    ByteCount bytes;
    SegmentId parent;
    SegmentId base;
    std::uint32_t below = 0;  // of those here it is the parent or base of so many
    std::int64_t kept_until_ns = 0;
    Position begin;
    bool here = false;
    bool rows = true;
    bool operator==(const Known&) const = default;
  };
  using Places = std::set<Place>;
  // Those that nothing here hangs below, by what they are worth with one half-life: rows, points and windows.
  struct Sorted {
    std::int64_t half_life_ns;
    std::array<Places, 2> kinds;
    std::size_t size() const { return kinds[0].size() + kinds[1].size(); }
    Places& of(const Known& known) { return kinds[known.rows ? 0 : 1]; }
  };
  using Kept = std::unordered_set<std::uint32_t>;
  struct KeptAt {
    Kept ids;
    ByteCount room;
    std::int64_t from_ns;
    std::int64_t until_ns;
  };
  class Choice;

  Known& known(SegmentId segment);
  Place place(std::uint32_t id, std::int64_t half_life_ns) const;
  void set_known(std::uint32_t id, Known known);
  void forget(std::uint32_t id);
  void sort_in(std::uint32_t id);
  void sort_out(std::uint32_t id);
  void count_below(const Known& child, bool more);
  void take_worth();
  void sort_some();
  const Kept& kept(const Request& request);
  SegmentId least(const Request& request, const Stays& stays);

  const Score* score_;
  const OrderShape shape_;
  KeptWorth worth_;           // empty where points are not needed
  std::vector<Known> known_;  // by id
  Sorted order_{kLongestHalfLifeNs, {}};
  std::optional<Sorted> next_;  // by another half-life, of the ids before next_id_
  std::uint32_t next_id_ = 0;
  Sorted former_{kLongestHalfLifeNs, {}};  // what is left of the one before
  std::int64_t wanted_half_life_ns_ = kLongestHalfLifeNs;
  std::set<std::tuple<std::int64_t, Position, std::uint32_t>> asked_to_keep_;  // the longest first
  std::optional<KeptAt> kept_;                                                 // of those, while it holds
  std::size_t size_ = 0;
};

}  // namespace kvkeep::policy
