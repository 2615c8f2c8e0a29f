#pragma once

// Which prefixes of a fingerprint are pinned: text, the hash of a prefix's end on each line, 64 lower-case hexadecimal
// digits. Without it all are like others.

#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"

namespace kvkeep::format {

inline constexpr std::size_t kMostPins = 256;
// Of such a text: digits and a line end each.
inline constexpr std::size_t kMostPinBytes = kMostPins * (2 * sizeof(PrefixHash) + 1);

// Lines that are no hash are passed over, and what is more than kMostPins.
std::vector<PrefixHash> decode_pins(std::string_view text);
std::string encode_pins(const std::vector<PrefixHash>& pins);

}  // namespace kvkeep::format
