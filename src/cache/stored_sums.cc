#include "cache/stored_sums.h"

#include "base/assert.h"

namespace kvkeep::cache {

StoredSums::Number StoredSums::enter(const Tenant& tenant) {
  const auto [known, is_new] = numbers_.try_emplace(tenant, static_cast<Number>(tenants_.size()));
  if (!is_new) return enter(known->second);
  if (free_.empty()) {
    tenants_.emplace_back();
  } else {
    known->second = free_.back();
    free_.pop_back();
  }
  tenants_[known->second] = {.tenant = tenant, .segments = 1};
  return known->second;
}

StoredSums::Number StoredSums::enter(Number tenant) {
  ++tenants_[tenant].segments;
  return tenant;
}

void StoredSums::leave(Number tenant) {
  Sums& sums = tenants_[tenant];
  KVKEEP_ASSERT(sums.segments > 0, "a segment left its tenant twice");
  if (--sums.segments > 0) return;
  for (const ByteCount bytes : sums.bytes) KVKEEP_ASSERT(bytes == ByteCount{}, "bytes of a tenant without segments");
  numbers_.erase(sums.tenant);
  free_.push_back(tenant);
}

StoredBytes StoredSums::of(const Tenant& tenant) const {
  const auto known = numbers_.find(tenant);
  if (known == numbers_.end()) return {};
  const Sums& sums = tenants_[known->second];
  return {sums.bytes[kRamTier.value()], sums.bytes[kDiskTier.value()]};
}

}  // namespace kvkeep::cache
