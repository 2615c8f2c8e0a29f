#pragma once

// Tenants: who shares cached state with whom. Requests that name a salt share only with those that name the same.
//
// A tenant's prefixes have hashes under a key of its own, so that nothing of it can be found, named or restored by
// whoever does not know the salt. That is all a salt is: it isolates by key. Nothing is encrypted by it.

#include <string_view>

#include "base/hash.h"

namespace kvkeep {

// All zeros: nobody in particular, as requests without a salt are.
using Tenant = Hash256<struct TenantTag>;
inline constexpr Tenant kNoTenant{};

// What a salt stands for under a fingerprint; "": kNoTenant. The salt cannot be computed from it.
Tenant tenant_of(const FingerprintHash& fingerprint, std::string_view salt);

// The key of a tenant's prefix hashes; without a tenant, the fingerprint.
FingerprintHash prefix_key(const FingerprintHash& fingerprint, const Tenant& tenant);

}  // namespace kvkeep
