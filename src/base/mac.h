#pragma once

// Authentication codes: they show that bytes from a place that others write to were made by a holder of a key. Keyed
// BLAKE3. Checksums (checksum.h) find damage only.

#include <blake3.h>

#include <cstdint>
#include <string_view>

#include "base/hash.h"
#include "base/types.h"

namespace kvkeep {

using MacKey = Hash256<struct MacKeyTag>;
using MacHash = Hash256<struct MacHashTag>;

// Takes bytes in pieces; pieces cut elsewhere give the same code. Not thread safe.
class MacStream {
 public:
  explicit MacStream(const MacKey& key) { blake3_hasher_init_keyed(&state_, key.bytes.data()); }
  void append(ByteSpan bytes) { blake3_hasher_update(&state_, bytes.data(), bytes.size()); }
  // Appends the length, then the bytes: two fields never run into each other.
  void append_field(std::string_view text) {
    append_field(static_cast<std::uint64_t>(text.size()));
    blake3_hasher_update(&state_, text.data(), text.size());
  }
  void append_field(std::uint64_t number) { blake3_hasher_update(&state_, &number, sizeof number); }
  MacHash finish() const {
    MacHash code;
    blake3_hasher_finalize(&state_, code.bytes.data(), code.bytes.size());
    return code;
  }

 private:
  blake3_hasher state_;
};

// Returns a key for one purpose, which `context` names: a text that is used nowhere else. Neither the secret nor the
// key of another purpose can be computed from it.
inline MacKey derive_key(std::string_view context, ByteSpan secret) {
  blake3_hasher state;
  blake3_hasher_init_derive_key_raw(&state, context.data(), context.size());
  blake3_hasher_update(&state, secret.data(), secret.size());
  MacKey key;
  blake3_hasher_finalize(&state, key.bytes.data(), key.bytes.size());
  return key;
}

// Takes the same time wherever the two differ, so that a code cannot be guessed byte by byte.
inline bool same_code(const MacHash& a, const MacHash& b) {
  std::uint8_t difference = 0;
  for (std::size_t i = 0; i < a.bytes.size(); ++i) difference |= static_cast<std::uint8_t>(a.bytes[i] ^ b.bytes[i]);
  return difference == 0;
}

}  // namespace kvkeep
