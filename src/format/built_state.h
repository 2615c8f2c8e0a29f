#pragma once

// A whole state that is stored as differences from an earlier one, its base (docs/decisions/0012).
//
// A state that grew by some tokens is the old rows, moved apart, and new ones between them. zstd takes the base for
// the bytes before the state, and its long-distance matching finds those rows wherever they moved to. A file holds the
// prefix hash of the base, the sum of the state that must come out, and zstd's frame; files from before version 4 have
// copies and literals in its place, which are only read. Pure: no I/O here.

#include <optional>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "base/types.h"
#include "format/segment_file.h"

namespace kvkeep::format {

inline constexpr std::size_t kBuiltStateHeadBytes = 48;

// Returns nullopt if it would take more than `max_bytes`. Precondition: base and state do not overlap (zstd would find
// nothing). Takes about a nanosecond per byte; the memory in addition to the result is at most `max_bytes`, an eighth
// of the state, and some MB.
std::optional<std::vector<std::byte>> encode_built_state(const PrefixHash& base_hash, ByteSpan base, ByteSpan state,
                                                         std::size_t max_bytes);

// Fills `out`. Fails with kDamaged if it is built on another state, or another one comes out than was stored. Never
// reads or writes outside; memory and work are bounded by the sizes given. `out` is unspecified after an error.
Status decode_built_state(const PrefixHash& base_hash, ByteSpan base, Differences differences, ByteSpan stored,
                          MutableByteSpan out);

// Measures how much such differences may save: returns how many bytes of `fresh` lie within windows of
// `window_bytes` (> 0) which `base` has, at whatever place. Takes some 50 bytes of memory for each byte of `base`.
std::size_t repeated_bytes(ByteSpan base, ByteSpan fresh, std::size_t window_bytes = 64);

}  // namespace kvkeep::format
