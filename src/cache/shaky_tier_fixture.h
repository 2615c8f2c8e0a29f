#pragma once

// A third tier as bad as the port allows: it promises nothing, silently loses segments, refuses at random, and does its
// work whenever the story says so. It keeps its segments over processes.

#include <map>
#include <random>
#include <string>

#include "cache/tier.h"
#include "testing/sim/sim_executor.h"

namespace kvkeep::cache {

class ShakyTier final : public TierPort {
 public:
  explicit ShakyTier(std::uint64_t seed, ByteCount budget = mebibytes(64)) : random_(seed), budget_(budget) {}

  std::string_view name() const override { return "shaky"; }
  Promise promise() const override { return Promise::kNone; }
  ByteCount used() const override { return used_; }
  ByteCount budget() const override { return budget_; }

  Status put(const TierItem& item, const Bytes& bytes) override {
    lose_some();
    if (one_in(5)) return no_space("no room at the moment");
    const std::string key = format::file_name(item.header.name);
    forget(key);
    used_ += ByteCount{format::file_bytes(item.header)};
    held_[key] = {item.header, bytes};
    ++puts;
    return {};
  }
  Result<Bytes> get(const TierItem& item) override {
    lose_some();
    if (one_in(9)) return io_error("no answer");
    const auto found = held_.find(format::file_name(item.header.name));
    if (found == held_.end()) return not_found("not here");
    EXPECT_EQ(found->second.header.tokens, item.header.tokens) << "asked for other tokens than were put";
    ++gets;
    if (!lies) return found->second.bytes;
    store::PayloadBuffer wrong = store::PayloadBuffer::allocate(found->second.bytes->size());
    std::ranges::fill(wrong.span(), std::byte{0x5a});
    return std::move(wrong).freeze();
  }
  Status drop(const TierItem& item) override {
    if (one_in(7)) return io_error("no answer");
    forget(format::file_name(item.header.name));
    return {};
  }

  std::size_t puts = 0;  // taken
  std::size_t gets = 0;  // given back
  bool lies = false;     // a mistake that tests make

 private:
  struct Held {
    format::SegmentHeader header;
    Bytes bytes;
  };
  bool one_in(std::uint64_t times) { return random_() % times == 0; }
  void lose_some() {
    if (held_.empty() || !one_in(10)) return;
    forget(std::next(held_.begin(), static_cast<std::ptrdiff_t>(random_() % held_.size()))->first);
  }
  void forget(const std::string& key) {
    const auto found = held_.find(key);
    if (found == held_.end()) return;
    used_ -= ByteCount{format::file_bytes(found->second.header)};
    held_.erase(found);
  }

  std::mt19937_64 random_;
  const ByteCount budget_;
  ByteCount used_;
  std::map<std::string, Held> held_;
};

// The same tier for another process: its segments outlive a cache.
class SameTier final : public TierPort {
 public:
  explicit SameTier(TierPort& tier) : tier_(tier) {}
  std::string_view name() const override { return tier_.name(); }
  Promise promise() const override { return tier_.promise(); }
  ByteCount used() const override { return tier_.used(); }
  ByteCount budget() const override { return tier_.budget(); }
  Status put(const TierItem& item, const Bytes& bytes) override { return tier_.put(item, bytes); }
  Result<Bytes> get(const TierItem& item) override { return tier_.get(item); }
  Status drop(const TierItem& item) override { return tier_.drop(item); }

 private:
  TierPort& tier_;
};

}  // namespace kvkeep::cache
