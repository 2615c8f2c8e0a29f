#pragma once

// The RAM tier: payloads by the number of their segment. It also keeps the decoded form of whole states that are stored
// as differences, as long as nothing else wants the room.

#include <atomic>
#include <unordered_map>
#include <vector>

#include "cache/segment_table.h"
#include "cache/tier.h"

namespace kvkeep::cache {

class RamTier final : public TierPort {
 public:
  RamTier(CacheMutex& mutex, SegmentTable& table, ByteCount budget) : mutex_(mutex), table_(table), budget_(budget) {}

  // ---- the port ----
  std::string_view name() const override { return "ram"; }
  Promise promise() const override { return Promise::kProcess; }
  ByteCount used() const override { return ByteCount{used_bytes_}; }
  ByteCount budget() const override { return budget_; }
  Status put(const TierItem& item, const Bytes& bytes) override EXCLUDES(kCacheLock);
  Result<Bytes> get(const TierItem& item) override EXCLUDES(kCacheLock);
  Status drop(const TierItem& item) override EXCLUDES(kCacheLock);

  // ---- the same under the lock: none of these waits ----
  // Null if RAM does not have it.
  Bytes find(SegmentId segment) const REQUIRES(kCacheLock);
  // Precondition: RAM does not have it. Rows of no bytes cost their token ids, or else a cache without a disk would
  // never forget them.
  void hold(SegmentId segment, Bytes bytes) REQUIRES(kCacheLock);
  // Replaces the bytes by equal ones.
  void replace(SegmentId segment, Bytes equal) REQUIRES(kCacheLock);
  // Drops the bytes, if RAM has them, and the decoded state.
  void let_go(SegmentId segment) REQUIRES(kCacheLock);

  // ---- decoded states ----
  Bytes decoded(SegmentId leaf) const REQUIRES(kCacheLock);
  // Precondition: RAM has the bytes that it was decoded from.
  void hold_decoded(SegmentId leaf, Bytes state) REQUIRES(kCacheLock);
  // Drops the longest unused first, until at most `limit` is used or none is left.
  void drop_decoded(ByteCount limit) REQUIRES(kCacheLock);
  ByteCount decoded_bytes() const REQUIRES(kCacheLock) { return decoded_bytes_; }

 private:
  void forget_decoded(SegmentId leaf) REQUIRES(kCacheLock);

  CacheMutex& mutex_;
  SegmentTable& table_;
  const ByteCount budget_;
  std::atomic<std::uint64_t> used_bytes_ = 0;           // changed with the lock, read without
  std::vector<Bytes> payloads_ GUARDED_BY(kCacheLock);  // by segment
  std::unordered_map<SegmentId, Bytes> decoded_ GUARDED_BY(kCacheLock);
  ByteCount decoded_bytes_ GUARDED_BY(kCacheLock);
};

}  // namespace kvkeep::cache
