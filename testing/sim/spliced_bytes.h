#pragma once

// Files as a later program would write them: with another version, and correct checksums.

#include <cstdint>
#include <cstring>
#include <vector>

#include "base/checksum.h"

namespace kvkeep::sim {

inline constexpr std::uint32_t kFutureVersion = 77;
// Where a segment's header has the checksum of all bytes before it (docs/format.md).
inline constexpr std::size_t kSegmentSumOffset = 240;

// Segments and saved indexes have their version after eight bytes of magic.
inline void set_version(std::vector<std::byte>& bytes, std::size_t sum_offset, std::uint32_t version) {
  constexpr std::size_t kVersionOffset = 8;
  std::memcpy(bytes.data() + kVersionOffset, &version, sizeof version);
  const Checksum sum = checksum(ByteSpan(bytes).first(sum_offset));
  std::memcpy(bytes.data() + sum_offset, &sum, sizeof sum);
}

}  // namespace kvkeep::sim
