#pragma once

// Bytes as differences from other bytes: what a base has already is copied from there, the rest is told.
//
// The base's windows of 64 bytes are indexed at every 64th byte; a rolling hash finds them at any place of the new
// bytes, and each is extended both ways as far as the bytes agree. So every repeated run of at least 127 bytes is
// found, wherever it moved to, unless a table of bounded size had no place for it. A whole state that grew by some
// tokens is the old rows, moved apart, and new ones between them: prefixes and fixed blocks find nothing of it.
//
// A delta is a sequence of operations, each: literal length, the literal bytes, copy length, and if that is not 0 the
// distance of the copy's source from the end of the copy before. Lengths are LEB128, the distance is zigzag LEB128.
// Pure: no I/O here.

#include <cstddef>
#include <optional>
#include <vector>

#include "base/checksum.h"
#include "base/hash.h"
#include "base/result.h"
#include "base/types.h"

namespace kvkeep::format {

struct DeltaOptions {
  std::size_t window_bytes = 64;  // > 0; tests take less
  // Most windows of the base that are indexed, at 18 to 36 bytes each; of a larger base fewer are, further apart.
  std::size_t max_windows = std::size_t{1} << 22;
};

// nullopt: it would take more than `max_bytes`. Takes some nanoseconds per byte; whatever the bytes are, at most two
// comparisons of window_bytes for each.
std::optional<std::vector<std::byte>> encode_delta(ByteSpan base, ByteSpan fresh, std::size_t max_bytes,
                                                   const DeltaOptions& options = {});

// Fills `out`. kDamaged: the delta is not one from this base to so many bytes. Never reads or writes outside; work and
// memory are bounded by the sizes given. `out` is unspecified after an error.
Status decode_delta(ByteSpan base, ByteSpan delta, MutableByteSpan out);

// ---- a state built on another ----

// What is stored of it: whose it is built on, the sum of the bytes that must come out, and the delta.
inline constexpr std::size_t kBuiltStateHeadBytes = 48;

// nullopt: it would take more than `max_bytes`.
std::optional<std::vector<std::byte>> encode_built_state(const PrefixHash& base_hash, ByteSpan base, ByteSpan state,
                                                         std::size_t max_bytes);
// kDamaged: built on another state, or not what was stored comes out.
Status decode_built_state(const PrefixHash& base_hash, ByteSpan base, ByteSpan stored, MutableByteSpan out);

}  // namespace kvkeep::format
