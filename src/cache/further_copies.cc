#include "cache/further_copies.h"

#include "os/file_system.h"

namespace kvkeep::cache {

namespace {

constexpr ByteCount kMostWaiting = mebibytes(256);

}  // namespace

FurtherCopies::FurtherCopies(CacheMutex& mutex, SegmentTable& table, RamTier& ram, Forgetting& forgetting,
                             const std::vector<LowerTier>& lower, os::Clock& clock)
    : mutex_(mutex), table_(table), ram_(ram), waiting_(lower.size()) {
  for (const LowerTier& tier : lower) {
    if (tier.id == kDiskTier) continue;
    auto evictor = std::make_unique<Evictor>(mutex, table, forgetting, *tier.port, tier.id, lower, clock);
    further_.push_back({tier, std::move(evictor)});
  }
}

// A slow tier gets a copy, so that staging buffers do not wait for it.
void FurtherCopies::offer(SegmentId segment) {
  if (further_.empty()) return;
  TierPort::Bytes bytes;
  std::uint64_t serial = 0;
  {
    CacheLock lock(mutex_);
    const Entry& known = table_.entry(segment);
    bytes = ram_.find(segment);
    if (!known.live || known.forgotten || bytes == nullptr) return;
    serial = known.serial;
  }
  if (bytes->staged()) bytes = store::compact(*bytes);
  CacheLock lock(mutex_);
  if (table_.entry(segment).serial != serial) return;
  for (std::size_t i = 0; i < further_.size(); ++i) {
    const bool absent = table_.entry(segment).in(further_[i].tier.id) == CopyState::kAbsent;
    if (!absent || waiting_[i] + ByteCount{bytes->size()} > kMostWaiting) continue;
    table_.set_copy(segment, further_[i].tier.id, CopyState::kQueued);
    waiting_[i] += ByteCount{bytes->size()};
    further_[i].tier.writer->post([this, i, segment, serial, bytes] { put(i, segment, serial, bytes); });
  }
}

// The segment is not held meanwhile: a slow tier keeps nothing in RAM.
void FurtherCopies::put(std::size_t which, SegmentId segment, std::uint64_t serial, const TierPort::Bytes& bytes) {
  const LowerTier& tier = further_[which].tier;
  TierItem item;
  {
    CacheLock lock(mutex_);
    waiting_[which] -= ByteCount{bytes->size()};
    if (table_.entry(segment).serial != serial) return;
    item = table_.item(segment);
  }
  const Status taken = put_with_room(further_[which], item, bytes);
  bool forgotten = false;
  {
    CacheLock lock(mutex_);
    forgotten = table_.entry(segment).serial != serial;
    if (!forgotten) table_.set_copy(segment, tier.id, taken ? CopyState::kHere : CopyState::kAbsent);
  }
  if (forgotten && taken) (void)tier.port->drop(item).ok();
}

Status FurtherCopies::put_with_room(const Further& further, const TierItem& item, const TierPort::Bytes& bytes) {
  TierPort& port = *further.tier.port;
  const ByteCount size = os::physical_size(ByteCount{format::file_bytes(item.header)});
  if (size > port.budget()) return no_space("a segment is larger than the whole tier");
  if (const ByteCount with = port.used() + size; with > port.budget()) {
    const ByteCount over = with - port.budget();
    (void)further.evictor->make_room({.bytes = over, .least = over});
  }
  return port.put(item, bytes);
}

void FurtherCopies::drain() {
  for (const Further& further : further_) further.tier.writer->drain();
}

}  // namespace kvkeep::cache
