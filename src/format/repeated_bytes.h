#pragma once

// What of one state stands in another: the measure for deltas (delta.h), not a way to make them.

#include "base/types.h"

namespace kvkeep::format {

// Bytes of `fresh` that lie within windows of `window_bytes` (> 0) which `base` has, at whatever place; each counts
// once. Pure. Takes some 50 bytes of memory for each byte of `base`.
std::size_t repeated_bytes(ByteSpan base, ByteSpan fresh, std::size_t window_bytes = 64);

}  // namespace kvkeep::format
