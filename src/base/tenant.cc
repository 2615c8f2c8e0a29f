#include "base/tenant.h"

namespace kvkeep {

namespace {

// BLAKE3 keeps hashes of different contexts apart: no prefix has a tenant as its hash, whatever its ids.
constexpr const char* kContext = "kvkeep 2026-11-21 tenant of a cache salt";

}  // namespace

Tenant tenant_of(const FingerprintHash& fingerprint, std::string_view salt) {
  if (salt.empty()) return kNoTenant;
  blake3_hasher state;
  blake3_hasher_init_derive_key(&state, kContext);
  blake3_hasher_update(&state, fingerprint.bytes.data(), fingerprint.bytes.size());
  blake3_hasher_update(&state, salt.data(), salt.size());
  Tenant tenant;
  blake3_hasher_finalize(&state, tenant.bytes.data(), tenant.bytes.size());
  return tenant;
}

FingerprintHash prefix_key(const FingerprintHash& fingerprint, const Tenant& tenant) {
  return tenant == kNoTenant ? fingerprint : FingerprintHash{tenant.bytes};
}

}  // namespace kvkeep
