#include "base/hash.h"

#include <bit>

#include "base/tenant_scope.h"

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

// Tenants of adapters begin with this, and then with the mark of the tenant that they are a form of. Former versions
// wrote another word, and no mark after it, or one that cannot be told from none.
constexpr std::string_view kAdapterMark = "LoRA";
constexpr std::string_view kFormerAdapterMark = "lora";
using OriginMark = std::array<std::uint8_t, 8>;

OriginMark mark_of(const Tenant& tenant) {
  blake3_hasher state;
  blake3_hasher_init_derive_key(&state, "kvkeep 2026-11-27 mark of a tenant with adapters");
  blake3_hasher_update(&state, tenant.bytes.data(), tenant.bytes.size());
  OriginMark mark;
  blake3_hasher_finalize(&state, mark.data(), mark.size());
  return mark;
}

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
  const OriginMark mark = mark_of(tenant);
  std::memcpy(adapted.bytes.data() + kAdapterMark.size(), mark.data(), mark.size());
  return adapted;
}

bool is_form_of(const Tenant& form, const Tenant& tenant) {
  if (!has_adapters(form)) return false;
  const OriginMark mark = mark_of(tenant);
  return std::memcmp(form.bytes.data() + kAdapterMark.size(), mark.data(), mark.size()) == 0;
}

namespace {

bool begins_with(const Tenant& tenant, std::string_view word) {
  return std::memcmp(tenant.bytes.data(), word.data(), word.size()) == 0;
}

}  // namespace

bool has_adapters(const Tenant& tenant) { return begins_with(tenant, kAdapterMark); }
bool has_former_adapters(const Tenant& tenant) { return begins_with(tenant, kFormerAdapterMark); }

FingerprintHash prefix_key(const FingerprintHash& fingerprint, const Tenant& tenant) {
  return tenant == kNoTenant ? fingerprint : FingerprintHash{tenant.bytes};
}

}  // namespace kvkeep
