#pragma once

// "Did you mean": the nearest known word to a mistyped one.

#include <string>
#include <string_view>
#include <vector>

namespace kvkeep::cli {

// What was meant by `word`: the known word of which it is a slip, or else the only one that begins so, or else, of
// flags, the only one with the same last word. Empty: nothing is near enough.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

// "; did you mean '--x'?" or empty: ready to be put behind an error message.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known);

}  // namespace kvkeep::cli
