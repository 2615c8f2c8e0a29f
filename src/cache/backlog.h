#pragma once

// The queue of what is not on disk yet: what the writer was given, and what waits to be given, in order. What each one
// waits for is told by its entry (Waits), so there is one place to put off, one to offer again, and nothing waits
// twice.
//
// The newest wait, so nothing that is on disk or in the queue hangs below them. They lie in RAM alone, where they serve
// and may be forgotten like all else.

#include <array>
#include <deque>
#include <optional>

#include "cache/segment_table.h"

namespace kvkeep::cache {

class Backlog {
 public:
  // For each reason so many are remembered: the oldest is then left to what continues it.
  Backlog(SegmentTable& table, std::size_t most_waiting) : table_(table), most_waiting_(most_waiting) {}

  struct Item {
    SegmentId segment;
    std::uint64_t serial = 0;
    ByteCount bytes;
  };

  // ---- given to the writer ----
  Item enter(SegmentId segment) REQUIRES(kCacheLock);
  // Its turn came. False: what has its number now is another one, whose own turn comes.
  bool leave(const Item& item) REQUIRES(kCacheLock);
  ByteCount queued_bytes() const REQUIRES(kCacheLock) { return queued_bytes_; }
  std::uint64_t queued() const REQUIRES(kCacheLock) { return queued_; }

  // ---- waiting ----
  // It is unwritten, and waits for this alone from now on.
  void wait(SegmentId segment, Waits waits) REQUIRES(kCacheLock);
  // The oldest that RAM still has and that waits for this; it is not remembered any more. nullopt: none does.
  std::optional<SegmentId> next(Waits waits) REQUIRES(kCacheLock);
  std::size_t remembered(Waits waits) const REQUIRES(kCacheLock) { return order(waits).size(); }
  std::size_t remembered() const REQUIRES(kCacheLock);

 private:
  using Order = std::deque<Item>;  // oldest first; some may not wait for it any more
  Order& order(Waits waits) REQUIRES(kCacheLock) { return orders_[static_cast<std::size_t>(waits)]; }
  const Order& order(Waits waits) const REQUIRES(kCacheLock) { return orders_[static_cast<std::size_t>(waits)]; }
  bool still(const Item& item, Waits waits) const REQUIRES(kCacheLock);

  SegmentTable& table_;
  const std::size_t most_waiting_;
  std::uint64_t queued_ GUARDED_BY(kCacheLock) = 0;
  ByteCount queued_bytes_ GUARDED_BY(kCacheLock);
  std::array<Order, 5> orders_ GUARDED_BY(kCacheLock);  // by Waits; of what waits for a continuation there is none
};

}  // namespace kvkeep::cache
