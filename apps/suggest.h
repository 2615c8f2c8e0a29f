#pragma once

// "Did you mean": the nearest known word to a mistyped one.

#include <string>
#include <string_view>
#include <vector>

namespace kvkeep::cli {

// The known word nearest to `word`, or empty if none is near enough to be what was meant.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

// "; did you mean '--x'?" or empty: ready to be put behind an error message.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known);

}  // namespace kvkeep::cli
