#pragma once

// The tiers that ship, as implementations of the port (tier.h): RAM, a disk tier on a DiskStore, and the shared tier on
// a SharedStore; and Distrust, which ends the use of them if stored state was found to be wrong.

#include <atomic>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "cache/segment_table.h"
#include "cache/tier.h"
#include "os/clock.h"
#include "share/read_ahead.h"
#include "share/shared_store.h"
#include "store/disk_store.h"

namespace kvkeep::cache {

// The RAM tier: payloads by the number of their segment. It also keeps the decoded form of whole states that are stored
// as differences, as long as nothing else wants the room.
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

// The disk tier: the port on a DiskStore. Next to puts and gets it keeps the times of files, which carry recency over a
// restart, and the saved index, which makes the next start short.
class DiskTier final : public TierPort {
 public:
  // `save_index_after`: see CacheOptions.
  DiskTier(std::unique_ptr<store::DiskStore> store, CacheMutex& mutex, SegmentTable& table, os::Clock& clock,
           os::Executor& writer, std::size_t save_index_after);

  store::DiskStore& store() { return *store_; }
  const store::DiskStore& store() const { return *store_; }

  std::string_view name() const override { return "disk"; }
  Promise promise() const override { return Promise::kDurable; }
  bool others_drop() const override { return store_->shared(); }
  ByteCount used() const override { return store_->used(); }
  ByteCount budget() const override { return store_->budget(); }
  Status put(const TierItem& item, const Bytes& bytes) override;
  Result<Bytes> get(const TierItem& item) override;
  Status drop(const TierItem& item) override { return store_->remove(item.header.name); }

  // The segment was used now, or is kept; the writer sets the time of its file.
  void post_touch(SegmentId segment) REQUIRES(kCacheLock);
  // A file was written or used since the index was saved. Saves the index when enough of it is old: each header in it
  // is copied once per as many new ones.
  void note_unsaved() EXCLUDES(kCacheLock);

 private:
  const std::unique_ptr<store::DiskStore> store_;
  CacheMutex& mutex_;
  SegmentTable& table_;
  os::Clock& clock_;
  os::Executor& writer_;
  const std::size_t save_index_after_;
  std::size_t unsaved_ GUARDED_BY(kCacheLock);
};

// The shared tier as the cache reads it: copies that other servers, or this one, published. It keeps what it likes, and
// is shared with others, so nothing is put or dropped there by way of the port: see publishing.h.
class SharedTier final : public TierPort {
 public:
  // `helpers` read ahead, each one segment at a time; they must be drained before it dies, after stop().
  SharedTier(share::SharedStore& store, os::Clock& clock, std::vector<os::Executor*> helpers)
      : store_(store), reads_ahead_(!helpers.empty()), reads_(store, clock, std::move(helpers), kMostReadAhead) {}

  std::string_view name() const override { return "shared"; }
  Promise promise() const override { return Promise::kNone; }
  // Its room is the engine's business.
  ByteCount used() const override { return {}; }
  ByteCount budget() const override { return {}; }
  // Always refuses.
  Status put(const TierItem& item, const Bytes& bytes) override;
  // Fail with kIo if prefilling would be faster by now.
  Result<Bytes> get(const TierItem& item) override;
  Result<Bytes> get_in_time(const TierItem& item, LoadTime& time) override;
  double patience_ms(const TierItem& item) const override { return patient(item).patience_ms; }
  // Leaves it there.
  Status drop(const TierItem& item) override;
  bool reads_ahead() const override { return reads_ahead_; }
  void expect(const std::vector<TierItem>& items) override;
  double least_read_ms(ByteCount bytes) const override;
  // Reads nothing ahead any more.
  void stop() { reads_.expect({}); }

  // How fast this server prefills decides how long a read may take.
  void note_prefill_rate(double tokens_per_s) { prefill_tokens_per_s_ = tokens_per_s; }
  double prefill_tokens_per_s() const { return prefill_tokens_per_s_; }

 private:
  // Two of the largest segments.
  static constexpr ByteCount kMostReadAhead = mebibytes(128);
  share::PatientRead patient(const TierItem& item) const;

  share::SharedStore& store_;
  const bool reads_ahead_;
  share::ReadAhead reads_;
  std::atomic<double> prefill_tokens_per_s_ = 0;
};

// An audit found stored state wrong (docs/audit.md): nothing of it is used any more, and nothing is stored. A note on
// disk tells other servers of the directory and later starts.
class Distrust {
 public:
  // `store` is null if there is no disk. `writer` leaves the note. `found`: by an earlier process, which left it.
  Distrust(store::DiskStore* store, os::Executor& writer, bool found = false)
      : store_(store), writer_(writer), found_(found) {}

  explicit operator bool() const { return found_; }
  // Thread safe.
  void find(const std::string& why);
  // On the writer, now and then: leaves the note if that failed before (a disk may be full or read-only for a while),
  // and looks for a note of another server, which may be gone by now.
  void look();

 private:
  void note();
  void heed();

  store::DiskStore* const store_;
  os::Executor& writer_;
  std::atomic<bool> found_;
  std::string unnoted_;  // used only on the writer, as is the next member
  bool said_unnoted_ = false;
};

}  // namespace kvkeep::cache
