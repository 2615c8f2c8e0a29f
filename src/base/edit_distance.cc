#include "base/edit_distance.h"

#include <algorithm>
#include <vector>

namespace kvkeep {

// Three rows of the usual table suffice, because a swap looks two rows back.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> two_back(b.size() + 1);
  std::vector<std::size_t> one_back(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) one_back[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitution = one_back[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({one_back[j] + 1, row[j - 1] + 1, substitution});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], two_back[j - 2] + 1);
    }
    two_back.swap(one_back);
    one_back.swap(row);
  }
  return one_back[b.size()];
}

std::string nearest_within(std::size_t most, std::string_view word, const std::vector<std::string>& known) {
  std::size_t best = most + 1;
  std::string found;
  for (const std::string& candidate : known) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance >= best) continue;
    best = distance;
    found = candidate;
  }
  return found;
}

}  // namespace kvkeep
