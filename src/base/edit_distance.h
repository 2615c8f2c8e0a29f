#pragma once

// How far a mistyped word is from a known one.

#include <cstddef>
#include <string_view>

namespace kvkeep {

// Insertions, deletions, substitutions and swaps of neighbours (optimal string alignment) that turn one word into the
// other. Time and memory: bytes of `a` times bytes of `b`, and bytes of `b`. Pure.
std::size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace kvkeep
