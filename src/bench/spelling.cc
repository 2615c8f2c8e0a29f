#include "bench/spelling.h"

#include <algorithm>

#include "base/edit_distance.h"

namespace kvkeep::bench {
namespace {

constexpr std::size_t kMaxWordBytes = 64;

}  // namespace

std::string_view nearest_word(std::string_view word, std::span<const std::string_view> known) {
  if (word.size() > kMaxWordBytes) return {};
  std::size_t best = std::max<std::size_t>(1, word.size() / 3) + 1;
  std::string_view found;
  for (const std::string_view candidate : known) {
    if (candidate.size() >= word.size() + best) continue;  // so many letters are missing
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best) {
      best = distance;
      found = candidate;
    }
  }
  return found;
}

}  // namespace kvkeep::bench
