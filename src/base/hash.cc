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

}  // namespace kvkeep
