#pragma once

// The queue of segments that are not on disk yet: those in the writer's queue, and those that wait for a place in it,
// in order. Each entry names what it waits for (Waits), so there is one way to postpone it and one to offer it again,
// and no segment waits twice.
//
// The newest segments wait, so nothing on disk or in the queue hangs below them. They lie only in RAM, where they serve
// requests and may be forgotten like all others.

#include <array>
#include <deque>
#include <optional>

#include "cache/segment_table.h"

namespace kvkeep::cache {

class Backlog {
 public:
  // Remembers at most `most_waiting` segments per reason; the oldest beyond that is written with what continues it.
  Backlog(SegmentTable& table, std::size_t most_waiting) : table_(table), most_waiting_(most_waiting) {}

  struct Item {
    SegmentId segment;
    std::uint64_t serial = 0;
    ByteCount bytes;
  };

  // ---- in the writer's queue ----
  Item enter(SegmentId segment) REQUIRES(kCacheLock);
  // The item's turn came. Returns false if its number names another segment now, which has an item of its own.
  bool leave(const Item& item) REQUIRES(kCacheLock);
  ByteCount queued_bytes() const REQUIRES(kCacheLock) { return queued_bytes_; }
  std::uint64_t queued() const REQUIRES(kCacheLock) { return queued_; }

  // ---- waiting ----
  // The segment is unwritten, and waits only for this reason from now on.
  void wait(SegmentId segment, Waits waits) REQUIRES(kCacheLock);
  // Removes and returns the oldest segment that RAM still has and that waits for this reason; nullopt if there is none.
  std::optional<SegmentId> next(Waits waits) REQUIRES(kCacheLock);
  std::size_t remembered(Waits waits) const REQUIRES(kCacheLock) { return order(waits).size(); }
  std::size_t remembered() const REQUIRES(kCacheLock);

 private:
  using Order = std::deque<Item>;  // oldest first; some may have stopped waiting for this reason
  Order& order(Waits waits) REQUIRES(kCacheLock) { return orders_[static_cast<std::size_t>(waits)]; }
  const Order& order(Waits waits) const REQUIRES(kCacheLock) { return orders_[static_cast<std::size_t>(waits)]; }
  bool still(const Item& item, Waits waits) const REQUIRES(kCacheLock);

  SegmentTable& table_;
  const std::size_t most_waiting_;
  std::uint64_t queued_ GUARDED_BY(kCacheLock) = 0;
  ByteCount queued_bytes_ GUARDED_BY(kCacheLock);
  std::array<Order, 5> orders_ GUARDED_BY(kCacheLock);  // by Waits; kContinuation's stays empty
};

}  // namespace kvkeep::cache
