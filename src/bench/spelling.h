#pragma once

// The nearest known word to a mistyped one.

#include <span>
#include <string_view>

namespace kvkeep::bench {

// The first of the known words that takes the fewest insertions, deletions, substitutions and swaps of neighbours;
// empty if all take more than a third of the letters, or if `word` is longer than any name anybody would type (64
// bytes).
std::string_view nearest_word(std::string_view word, std::span<const std::string_view> known);

}  // namespace kvkeep::bench
