#pragma once

// Checksums find damaged bytes (XXH3, 128 bits). They are no names: see hash.h.

#include <array>
#include <cstdint>

#include "base/types.h"

#define XXH_STATIC_LINKING_ONLY  // the streaming state by value
#include <xxhash.h>

namespace kvkeep {

struct Checksum {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  bool operator==(const Checksum&) const = default;
};

// One-shot; about memory speed. Thread safe.
inline Checksum checksum(ByteSpan bytes) {
  const XXH128_hash_t sum = XXH3_128bits(bytes.data(), bytes.size());
  return {sum.low64, sum.high64};
}

// The same over pieces in order: pieces cut elsewhere give the same sum.
class ChecksumStream {
 public:
  ChecksumStream() { XXH3_128bits_reset(&state_); }
  void append(ByteSpan bytes) { XXH3_128bits_update(&state_, bytes.data(), bytes.size()); }
  Checksum finish() const {
    const XXH128_hash_t sum = XXH3_128bits_digest(&state_);
    return {sum.low64, sum.high64};
  }

 private:
  XXH3_state_t state_;
};

}  // namespace kvkeep
