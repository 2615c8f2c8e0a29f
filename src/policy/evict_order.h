#pragma once

// The order in which candidates leave a full tier, kept as they come, change and go.
//
// GreedyDual: the rank of a candidate is the order's clock when it was used last, plus the square root of the prefill
// tokens that keeping it saves per byte (saved_prefill.h). The least rank leaves, and the clock is the rank of the last
// victim: an unused candidate grows old as others leave, however fast a tier is filled. The root keeps a candidate
// that saves a hundred times as much from staying a hundred times as long. Rows of one model save about the same per
// byte, so the longest unused rows leave first. Hits do not count: those of a long conversation would outlive it. A
// candidate that saves nothing leaves before all others. docs/decisions/0014 has the measurements.
//
// Rows leave from the ends of paths. Candidates that a request asked to keep until a time leave last, within limits
// (Request::kept_room).
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
#include "policy/evict_candidate.h"
#include "policy/saved_prefill.h"

namespace kvkeep::policy {

struct OrderShape {
  bool needs_points = false;        // rows by themselves give no restorable position
  std::uint32_t window_tokens = 0;  // how far back windows must reach
};

class EvictOrder {
 public:
  explicit EvictOrder(OrderShape shape = {}) : shape_(shape), saved_(shape.window_tokens) {}

  // Adds a candidate, or replaces what was known of it. Where points are needed, candidates of other tiers must be put
  // as well (`absent`). Cost: O(log n), with points that of SavedPrefill::put().
  void put(const EvictCandidate& candidate);
  void erase(SegmentId segment);

  struct Request {
    ByteCount needed;
    std::size_t most = SIZE_MAX;  // victims
    std::int64_t now_ns = 0;
    // So many bytes of the candidates that a request asked to keep leave last: those kept longest, of a path its
    // beginning. The rest leaves by its rank, so that no client fills a tier for a day.
    ByteCount kept_room = {};
    bool points_only = false;  // rows stay: points and windows take too much
  };
  using Stays = std::function<bool(SegmentId)>;
  // Returns victims in the order they should leave, each child before its parent, until `needed` bytes are freed or
  // nothing may leave any more; they stay known until erase(). A candidate for which `stays` returns true does not
  // leave, nor does what it hangs below. Where points are needed, at most one victim: the next is chosen when it has
  // left, for others save more or less without it. Cost: O(log n) for each victim and each that stays; O(those that a
  // request asked to keep) when these changed; the first call sorts all candidates.
  std::vector<SegmentId> choose(const Request& request, const Stays& stays);

  std::size_t size() const { return size_; }
  ByteCount memory() const {
    return ByteCount{known_.capacity() * sizeof(Known) + (order_[0].size() + order_[1].size()) * 80} + saved_.memory();
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
    double saved_root = 0;  // of the prefill that it saves per byte
    double clock = 0;       // when it was used last
    std::int64_t last_used_ns = 0;
    ByteCount bytes;
    SegmentId parent;
    SegmentId base;
    std::uint32_t below = 0;  // how many of those here have it as parent or base
    std::int64_t kept_until_ns = 0;
    Position begin;
    bool here = false;
    bool rows = true;
    bool operator==(const Known&) const = default;
  };
  using Places = std::set<Place>;
  using Kept = std::unordered_set<std::uint32_t>;
  struct KeptAt {
    Kept ids;
    ByteCount room;
    std::int64_t from_ns;
    std::int64_t until_ns;
  };
  class Choice;

  Known& known(SegmentId segment);
  Place place(std::uint32_t id) const;
  void set_known(std::uint32_t id, Known known);
  void forget(std::uint32_t id);
  void sort_in(std::uint32_t id);
  void sort_out(std::uint32_t id);
  void count_below(const Known& child, bool more);
  void take_changed();
  void start_clock();
  const Kept& kept(const Request& request);
  SegmentId least(const Request& request, const Stays& stays);

  const OrderShape shape_;
  SavedPrefill saved_;           // empty where points are not needed
  std::vector<Known> known_;     // by id
  std::array<Places, 2> order_;  // of those that nothing here hangs below: rows, then points and windows
  std::optional<double> clock_;  // the rank of the last victim; nullopt before the first is chosen
  std::set<std::tuple<std::int64_t, Position, std::uint32_t>> asked_to_keep_;  // the longest first
  std::optional<KeptAt> kept_;                                                 // of those, while it holds
  std::size_t size_ = 0;
};

}  // namespace kvkeep::policy
