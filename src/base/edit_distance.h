#pragma once

// How far a mistyped word is from a known one.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace kvkeep {

// Insertions, deletions, substitutions and swaps of neighbours (optimal string alignment) that turn one word into the
// other. Time and memory: bytes of `a` times bytes of `b`, and bytes of `b`. Pure.
std::size_t edit_distance(std::string_view a, std::string_view b);

// The known word nearest to `word`, the first of several, if it is no further away than `most`; else empty.
std::string nearest_within(std::size_t most, std::string_view word, const std::vector<std::string>& known);

}  // namespace kvkeep
