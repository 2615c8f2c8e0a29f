#pragma once

// "Did you mean": the nearest known word to a mistyped one.

#include <string>
#include <string_view>
#include <vector>

namespace kvkeep::cli {

// Insertions, deletions, substitutions and swaps of neighbours that turn one word into the other.
std::size_t edit_distance(std::string_view a, std::string_view b);

// The known word nearest to `word`, or empty if none is near enough to be what was meant.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

// "; did you mean '--x'?" or empty: ready to be put behind an error message.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known);

}  // namespace kvkeep::cli
