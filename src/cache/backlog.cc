#include "cache/backlog.h"

namespace kvkeep::cache {

Backlog::Item Backlog::enter(SegmentId segment) {
  const Entry& known = table_.entry(segment);
  const Item item{segment, known.serial, known.charged};
  table_.set_copy(segment, kDiskTier, CopyState::kQueued);
  ++queued_;
  queued_bytes_ += item.bytes;
  return item;
}

bool Backlog::leave(const Item& item) {
  --queued_;
  queued_bytes_ -= item.bytes;
  return table_.entry(item.segment).serial == item.serial;
}

void Backlog::wait(SegmentId segment, Waits waits) {
  table_.set_unwritten(segment, waits);
  if (waits == Waits::kContinuation) return;
  Order& waiting = order(waits);
  if (waiting.size() >= most_waiting_) {
    const Item oldest = waiting.front();
    waiting.pop_front();
    if (still(oldest, waits)) table_.set_unwritten(oldest.segment, Waits::kContinuation);
  }
  waiting.push_back({segment, table_.entry(segment).serial, table_.entry(segment).charged});
}

bool Backlog::still(const Item& item, Waits waits) const {
  const Entry& known = table_.entry(item.segment);
  return known.live && known.serial == item.serial && known.unwritten() && known.waits == waits;
}

std::optional<SegmentId> Backlog::next(Waits waits) {
  Order& waiting = order(waits);
  while (!waiting.empty()) {
    const Item oldest = waiting.front();
    waiting.pop_front();
    if (still(oldest, waits) && table_.entry(oldest.segment).in_ram()) return oldest.segment;
  }
  return std::nullopt;
}

std::size_t Backlog::remembered() const {
  std::size_t all = 0;
  for (const Order& waiting : orders_) all += waiting.size();
  return all;
}

}  // namespace kvkeep::cache
