#pragma once

// Where tenants' tries begin: the segments at position 0, by tenant and first token. The paths below them are found
// only through them, so nothing else of the index knows of tenants. Requests without a tenant are not here.
//
// Costs memory for segments that are there, never for tenants that were.

#include <unordered_map>
#include <utility>

#include "base/tenant.h"
#include "base/types.h"

namespace kvkeep::index {

class TenantRoots {
 public:
  bool empty() const { return tenants_.empty(); }
  // kRootSegment: none.
  SegmentId find(const Tenant& tenant, TokenId token) const {
    const auto found = segments_.find({tenant, token});
    return found == segments_.end() ? kRootSegment : found->second;
  }
  // False: the tenant has one that begins with this token.
  bool add(SegmentId segment, const Tenant& tenant, TokenId token) {
    return segments_.emplace(Root{tenant, token}, segment).second && tenants_.emplace(segment, tenant).second;
  }
  // Whose root it is; kNoTenant: it is none.
  Tenant tenant(SegmentId segment) const {
    const auto found = tenants_.find(segment);
    return found == tenants_.end() ? kNoTenant : found->second;
  }
  // False: it is none.
  bool erase(SegmentId segment, TokenId token) {
    const auto found = tenants_.find(segment);
    if (found == tenants_.end()) return false;
    segments_.erase({found->second, token});
    tenants_.erase(found);
    return true;
  }
  std::size_t memory_bytes() const {
    // One block per entry (link, cached hash, pair, what malloc adds) and a bucket array.
    constexpr std::size_t kEntry = sizeof(void*) + sizeof(std::size_t) + sizeof(std::pair<Root, SegmentId>) + 16;
    return segments_.size() * 2 * kEntry + (segments_.bucket_count() + tenants_.bucket_count()) * sizeof(void*);
  }

 private:
  struct Root {
    Tenant tenant;
    TokenId token = 0;
    bool operator==(const Root&) const = default;
  };
  struct RootHash {
    std::size_t operator()(const Root& root) const noexcept {
      return std::hash<Tenant>{}(root.tenant) ^ (static_cast<std::uint32_t>(root.token) * 0x9e37'79b9'7f4a'7c15ULL);
    }
  };

  std::unordered_map<Root, SegmentId, RootHash> segments_;
  std::unordered_map<SegmentId, Tenant> tenants_;
};

}  // namespace kvkeep::index
