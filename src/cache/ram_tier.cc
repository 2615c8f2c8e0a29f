#include "cache/ram_tier.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace kvkeep::cache {

// ---- the port ----

Status RamTier::put(const TierItem& item, const Bytes& bytes) {
  CacheLock lock(mutex_);
  if (find(item.segment) == nullptr) hold(item.segment, bytes);
  return {};
}

Result<TierPort::Bytes> RamTier::get(const TierItem& item) {
  CacheLock lock(mutex_);
  Bytes found = find(item.segment);
  if (found == nullptr) return not_found("not in memory");
  return found;
}

Status RamTier::drop(const TierItem& item) {
  CacheLock lock(mutex_);
  let_go(item.segment);
  return {};
}

// ---- payloads ----

TierPort::Bytes RamTier::find(SegmentId segment) const {
  return segment.value() < payloads_.size() ? payloads_[segment.value()] : nullptr;
}

void RamTier::hold(SegmentId segment, Bytes bytes) {
  if (segment.value() >= payloads_.size()) payloads_.resize(segment.value() + 1);
  KVKEEP_ASSERT(payloads_[segment.value()] == nullptr, "a payload in the place of another");
  const std::size_t ids_bytes = table_.info(segment).range.size() * sizeof(TokenId);
  const ByteCount charged{bytes->size() > 0 ? bytes->size() : ids_bytes};
  payloads_[segment.value()] = std::move(bytes);
  used_bytes_ += charged.value();
  table_.set_in_ram(segment, charged);
}

void RamTier::replace(SegmentId segment, Bytes equal) {
  KVKEEP_ASSERT(find(segment) != nullptr && find(segment)->size() == equal->size(), "another payload");
  payloads_[segment.value()] = std::move(equal);
}

void RamTier::let_go(SegmentId segment) {
  forget_decoded(segment);
  if (find(segment) == nullptr) return;
  used_bytes_ -= table_.entry(segment).charged.value();
  payloads_[segment.value()].reset();
  table_.set_copy(segment, kRamTier, CopyState::kAbsent);
}

// ---- decoded states ----

TierPort::Bytes RamTier::decoded(SegmentId leaf) const {
  const auto found = decoded_.find(leaf);
  return found != decoded_.end() ? found->second : nullptr;
}

void RamTier::hold_decoded(SegmentId leaf, Bytes state) {
  KVKEEP_ASSERT(find(leaf) != nullptr, "a decoded state without what it came from");
  const ByteCount size{state->size()};
  if (!decoded_.try_emplace(leaf, std::move(state)).second) return;
  used_bytes_ += size.value();
  decoded_bytes_ += size;
}

void RamTier::forget_decoded(SegmentId leaf) {
  const auto found = decoded_.find(leaf);
  if (found == decoded_.end()) return;
  const ByteCount size{found->second->size()};
  used_bytes_ -= size.value();
  decoded_bytes_ -= size;
  decoded_.erase(found);
}

void RamTier::drop_decoded(ByteCount limit) {
  const auto used_ns = [this](const auto& held) REQUIRES(kCacheLock) { return table_.entry(held.first).last_used_ns; };
  while (used() > limit && !decoded_.empty()) forget_decoded(std::ranges::min_element(decoded_, {}, used_ns)->first);
}

}  // namespace kvkeep::cache
