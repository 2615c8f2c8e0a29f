#include "suggest.h"

#include <algorithm>

#include "base/edit_distance.h"

namespace kvkeep::cli {

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  // A third of the letters may be wrong, dashes not counted: more, and the suggestion would puzzle.
  const std::size_t dashes = std::min(word.find_first_not_of('-'), word.size());
  return nearest_within((word.size() - dashes) / 3, word, known);
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known) {
  const std::string found = nearest(word, known);
  return found.empty() ? std::string() : "; did you mean '" + found + "'?";
}

}  // namespace kvkeep::cli
