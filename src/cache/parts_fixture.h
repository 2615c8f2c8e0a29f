#pragma once

// Parts of a cache without the cache: a table, RAM, and a lower tier that does what a test says.

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cache/cache_stats.h"
#include "cache/evictor.h"
#include "cache/forgetting.h"
#include "cache/segment_table.h"
#include "cache/tiers.h"
#include "testing/sim/sim_clock.h"
#include "testing/sim/sim_executor.h"

namespace kvkeep::cache {

// Keeps the bytes that it gets, by name.
class MapTier final : public TierPort {
 public:
  explicit MapTier(Promise promise, ByteCount budget = mebibytes(1)) : promise_(promise), budget_(budget) {}
  std::string_view name() const override { return "map"; }
  Promise promise() const override { return promise_; }
  ByteCount used() const override {
    ByteCount used;
    for (const auto& [key, bytes] : held) used += ByteCount{bytes->size()};
    return used;
  }
  ByteCount budget() const override { return budget_; }
  Status put(const TierItem& item, const Bytes& bytes) override {
    if (refuses) return no_space("full");
    held[format::file_name(item.header.name)] = bytes;
    return {};
  }
  Result<Bytes> get(const TierItem& item) override {
    const auto found = held.find(format::file_name(item.header.name));
    if (found == held.end()) return not_found("not here");
    return found->second;
  }
  Status drop(const TierItem& item) override {
    if (refuses) return io_error("refused");
    dropped.push_back(item.segment);
    held.erase(format::file_name(item.header.name));
    return {};
  }

  std::map<std::string, Bytes> held;
  std::vector<SegmentId> dropped;  // in this order
  bool refuses = false;

 private:
  const Promise promise_;
  const ByteCount budget_;
};

constexpr std::size_t kPayloadBytes = 100;  // of each segment

inline TierPort::Bytes some_bytes(std::size_t size = kPayloadBytes) {
  store::PayloadBuffer buffer = store::PayloadBuffer::allocate(size);
  for (std::size_t i = 0; i < size; ++i) buffer.span()[i] = static_cast<std::byte>(i * 7 % 251);
  return std::move(buffer).freeze();
}

struct PartsTable {
  explicit PartsTable(const StateShape& shape = {.cacheable = true}, Promise promise = Promise::kDurable,
                      ByteCount ram_budget = mebibytes(1))
      : table({}, shape), ram(mutex, table, ram_budget), lower(promise) {}

  // A segment of 16 tokens below `parent`, with a first id of its own; RAM has it.
  SegmentId add(SegmentId parent, TokenId first, std::size_t size_bytes = kPayloadBytes) {
    CacheLock lock(mutex);
    const Position begin = parent == kRootSegment ? Position{} : table.info(parent).range.end;
    std::vector<TokenId> tokens(16, 1);
    tokens.front() = first;
    const SegmentId added = table.insert({parent, begin}, tokens, hash({parent, begin}), hash({parent, begin}, tokens),
                                         format::Origin::kPrompt, {size_bytes, clock.wall_ns()});
    ram.hold(added, some_bytes(size_bytes));
    return added;
  }
  // A leaf at the end of a segment; RAM has it.
  SegmentId add_leaf(SegmentId within, format::PartKind kind, std::size_t size_bytes = kPayloadBytes) {
    CacheLock lock(mutex);
    const Position end = table.info(within).range.end;
    const PrefixHash at = table.info(within).end_hash;
    const Position begin = kind == format::PartKind::kWindowRows ? table.info(within).range.begin : end;
    const SegmentId added = table.insert_leaf({within, end}, kind, begin, at, at, {size_bytes, clock.wall_ns()});
    ram.hold(added, some_bytes(size_bytes));
    return added;
  }
  // The lower tier has it as well.
  void put_below(SegmentId segment) {
    TierItem item;
    TierPort::Bytes bytes;
    {
      CacheLock lock(mutex);
      item = table.item(segment);
      bytes = ram.find(segment);
      table.set_copy(segment, kDiskTier, CopyState::kHere);
    }
    ASSERT_TRUE(lower.put(item, bytes).ok());
  }
  void drop_from_ram(SegmentId segment) {
    CacheLock lock(mutex);
    ram.let_go(segment);
  }
  bool there(SegmentId segment) {
    CacheLock lock(mutex);
    return table.entry(segment).live;
  }
  Entry entry(SegmentId segment) {
    CacheLock lock(mutex);
    return table.entry(segment);
  }
  std::vector<LowerTier> tiers() { return {{kDiskTier, &lower, &writer, &reader}}; }

  sim::SimClock clock;
  sim::SimExecutor writer;
  sim::SimExecutor reader;
  CacheMutex mutex;
  SegmentTable table;
  RamTier ram;
  MapTier lower;
  Forgetting forgetting{mutex, table, ram, tiers(), clock};

 private:
  PrefixHash hash(index::Cursor at, const std::vector<TokenId>& more = {}) REQUIRES(kCacheLock) {
    PrefixHasher hasher{FingerprintHash{}};
    if (at.segment != kRootSegment) hasher.append(table.index().path_tokens(at));
    hasher.append(more);
    return hasher.current();
  }
};

}  // namespace kvkeep::cache
