#pragma once

// Adds up the bytes of segments and leaves in the tiers: those of each tenant, and those of all points.
//
// A tenant is known as long as a segment of it is. Needs the cache's lock. Cost: O(1) for each change of a copy.

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "base/types.h"
#include "cache/tier.h"

namespace kvkeep::cache {

struct StoredBytes {
  ByteCount ram;
  ByteCount disk;
  bool operator==(const StoredBytes&) const = default;
};

class StoredSums {
 public:
  // A tenant, as long as a segment of it is known. Small, so that each segment can have it.
  using Number = std::uint32_t;

  // A segment of the tenant came. The caller keeps the number until it calls leave().
  Number enter(const Tenant& tenant);
  // The same for a segment of a tenant that has others.
  Number enter(Number tenant);
  // A segment went, and has no bytes any more.
  void leave(Number tenant);

  void add(Number tenant, TierId tier, ByteCount bytes) { tenants_[tenant].bytes[tier.value()] += bytes; }
  void subtract(Number tenant, TierId tier, ByteCount bytes) { tenants_[tenant].bytes[tier.value()] -= bytes; }

  // Points, whole states and windows of all tenants, which come to a tier and go.
  void move_points(TierId tier, ByteCount come, ByteCount gone) { points_[tier.value()] += come - gone; }
  ByteCount points(TierId tier) const { return points_[tier.value()]; }

  // Returns nothing but zeros if the tenant is not known.
  StoredBytes of(const Tenant& tenant) const;
  std::size_t tenants() const { return numbers_.size(); }

 private:
  struct Sums {
    Tenant tenant;
    std::size_t segments = 0;
    std::array<ByteCount, kMostTiers> bytes{};
  };

  std::vector<Sums> tenants_;  // by number
  std::vector<Number> free_;   // numbers that no tenant has
  std::unordered_map<Tenant, Number> numbers_;
  std::array<ByteCount, kMostTiers> points_{};
};

}  // namespace kvkeep::cache
