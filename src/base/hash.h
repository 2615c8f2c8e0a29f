#pragma once

// Names. Everything kvkeep finds again is named by a BLAKE3 hash: models, fingerprints and prefixes.
// A name by itself is never trusted: token ids are stored next to it and compared, so a collision is a miss.

#include <blake3.h>

#include <array>
#include <compare>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/types.h"

namespace kvkeep {

// 256 bits, compared as bytes. The tag keeps a fingerprint from being used where a prefix hash belongs.
template <typename Tag>
struct Hash256 {
  std::array<std::uint8_t, 32> bytes{};
  auto operator<=>(const Hash256&) const = default;
  // Lower-case hexadecimal of the first `count` bytes.
  std::string hex(std::size_t count = 32) const {
    static constexpr char kDigits[] = "0123456789abcdef";
    std::string out;
    for (std::size_t i = 0; i < count; ++i) {
      out.push_back(kDigits[bytes[i] >> 4]);
      out.push_back(kDigits[bytes[i] & 15]);
    }
    return out;
  }
};

using PrefixHash = Hash256<struct PrefixHashTag>;  // h(n) of design: the first n token ids under a fingerprint
using FingerprintHash = Hash256<struct FingerprintHashTag>;  // all that makes state reusable, salt included
using ModelHash = Hash256<struct ModelHashTag>;              // identity of the weights and metadata

// h(n), keyed by the fingerprint: BLAKE3 over token ids as little-endian 32-bit integers. Copyable, so that a branch
// can go on from any position. Not thread safe; about 2 KB.
class PrefixHasher {
 public:
  explicit PrefixHasher(const FingerprintHash& key);
  void append(TokenSpan tokens);
  // The hash of everything appended so far; more may be appended after it.
  PrefixHash current() const;
  Position position() const { return position_; }

 private:
  blake3_hasher state_;
  Position position_;
};

// A plain BLAKE3 over bytes, for fingerprints and model identities.
class ByteHasher {
 public:
  ByteHasher() { blake3_hasher_init(&state_); }
  void append(ByteSpan bytes) { blake3_hasher_update(&state_, bytes.data(), bytes.size()); }
  // Appends the length, then the bytes: two fields never run into each other.
  void append_field(std::string_view text);
  void append_field(std::uint64_t number);
  template <typename Hash>
  Hash finish() const {
    Hash hash;
    blake3_hasher_finalize(&state_, hash.bytes.data(), hash.bytes.size());
    return hash;
  }

 private:
  blake3_hasher state_;
};

// ---- tenants ----
// Requests that name a salt share cached state only with those that name the same one. A tenant's prefixes have hashes
// under a key of its own, so that nothing of it can be found, named or restored by clients that do not know the salt.
// That is all a salt is: it isolates by key and encrypts nothing.

// All zeros: requests without a salt have this tenant.
using Tenant = Hash256<struct TenantTag>;
inline constexpr Tenant kNoTenant{};

// Returns the tenant of a salt under a fingerprint, kNoTenant for "". The salt cannot be computed from it.
Tenant tenant_of(const FingerprintHash& fingerprint, std::string_view salt);
// Returns the tenant of requests that use other scales of LoRA adapters than the fingerprint names: the state that they
// compute is of no use to others of `tenant`.
Tenant with_adapters(const FingerprintHash& fingerprint, const Tenant& tenant, std::span<const float> scales);
// Returns true if with_adapters() made this tenant; one of a salt passes for such with a chance of 1 in 2^32.
bool has_adapters(const Tenant& tenant);
// Returns true for tenants of other scales as former versions made them, without a mark of the tenant that they are a
// form of (tenant_scope.h). No request has such a tenant any more, and no client's order could name its state. A salt's
// passes for one with the same chance.
bool has_former_adapters(const Tenant& tenant);
// Returns the key of a tenant's prefix hashes; without a tenant, the fingerprint.
FingerprintHash prefix_key(const FingerprintHash& fingerprint, const Tenant& tenant);

}  // namespace kvkeep

template <typename Tag>
struct std::hash<kvkeep::Hash256<Tag>> {
  std::size_t operator()(const kvkeep::Hash256<Tag>& name) const noexcept {
    std::size_t value;
    std::memcpy(&value, name.bytes.data(), sizeof value);  // a BLAKE3 output is already uniform
    return value;
  }
};
