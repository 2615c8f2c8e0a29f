#include "base/mac.h"

namespace kvkeep {

void MacStream::append_field(std::string_view text) {
  append_field(static_cast<std::uint64_t>(text.size()));
  blake3_hasher_update(&state_, text.data(), text.size());
}

MacHash MacStream::finish() const {
  MacHash code;
  blake3_hasher_finalize(&state_, code.bytes.data(), code.bytes.size());
  return code;
}

MacKey derive_key(std::string_view context, ByteSpan secret) {
  blake3_hasher state;
  blake3_hasher_init_derive_key_raw(&state, context.data(), context.size());
  blake3_hasher_update(&state, secret.data(), secret.size());
  MacKey key;
  blake3_hasher_finalize(&state, key.bytes.data(), key.bytes.size());
  return key;
}

bool same_code(const MacHash& a, const MacHash& b) {
  std::uint8_t difference = 0;
  for (std::size_t i = 0; i < a.bytes.size(); ++i) difference |= static_cast<std::uint8_t>(a.bytes[i] ^ b.bytes[i]);
  return difference == 0;
}

}  // namespace kvkeep
