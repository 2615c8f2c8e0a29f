#include "base/hash.h"

#include <bit>

namespace kvkeep {

static_assert(std::endian::native == std::endian::little, "token ids are hashed as little-endian integers in place");

PrefixHasher::PrefixHasher(const FingerprintHash& key) { blake3_hasher_init_keyed(&state_, key.bytes.data()); }

void PrefixHasher::append(TokenSpan tokens) {
  blake3_hasher_update(&state_, tokens.data(), tokens.size_bytes());
  position_ = position_ + tokens.size();
}

PrefixHash PrefixHasher::current() const {
  PrefixHash hash;
  blake3_hasher_finalize(&state_, hash.bytes.data(), hash.bytes.size());
  return hash;
}

void ByteHasher::append_field(std::string_view text) {
  append_field(static_cast<std::uint64_t>(text.size()));
  blake3_hasher_update(&state_, text.data(), text.size());
}

void ByteHasher::append_field(std::uint64_t number) { blake3_hasher_update(&state_, &number, sizeof number); }

Tenant tenant_of(const FingerprintHash& fingerprint, std::string_view salt) {
  if (salt.empty()) return kNoTenant;
  blake3_hasher state;
  // BLAKE3 keeps hashes of different contexts apart: no prefix has a tenant as its hash, whatever its ids.
  blake3_hasher_init_derive_key(&state, "kvkeep 2026-11-21 tenant of a cache salt");
  blake3_hasher_update(&state, fingerprint.bytes.data(), fingerprint.bytes.size());
  blake3_hasher_update(&state, salt.data(), salt.size());
  Tenant tenant;
  blake3_hasher_finalize(&state, tenant.bytes.data(), tenant.bytes.size());
  return tenant;
}

namespace {

constexpr std::string_view kAdapterMark = "lora";

}  // namespace

Tenant with_adapters(const FingerprintHash& fingerprint, const Tenant& tenant, std::span<const float> scales) {
  blake3_hasher state;
  blake3_hasher_init_derive_key(&state, "kvkeep 2026-11-23 tenant of adapter scales");
  blake3_hasher_update(&state, fingerprint.bytes.data(), fingerprint.bytes.size());
  blake3_hasher_update(&state, tenant.bytes.data(), tenant.bytes.size());
  blake3_hasher_update(&state, scales.data(), scales.size_bytes());
  Tenant adapted;
  blake3_hasher_finalize(&state, adapted.bytes.data(), adapted.bytes.size());
  std::memcpy(adapted.bytes.data(), kAdapterMark.data(), kAdapterMark.size());
  return adapted;
}

bool has_adapters(const Tenant& tenant) {
  return std::memcmp(tenant.bytes.data(), kAdapterMark.data(), kAdapterMark.size()) == 0;
}

FingerprintHash prefix_key(const FingerprintHash& fingerprint, const Tenant& tenant) {
  return tenant == kNoTenant ? fingerprint : FingerprintHash{tenant.bytes};
}

}  // namespace kvkeep
