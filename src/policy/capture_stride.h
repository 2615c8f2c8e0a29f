#pragma once

// How far apart a sequence is captured where any rows can be saved only together with all before them
// (cache::ModelMemory::own_cells). Pure.

#include <algorithm>
#include <cstddef>

namespace kvkeep::policy {

// Returns how many tokens after `captured` the next capture lies, at least `least`. All captures of a sequence together
// then copy at most `most_copies` times as many rows as it had at the last one: ends that grow by m / (m - 1) add up to
// m times the last one, and equal steps before that to less. Precondition: most_copies > 1.
constexpr std::size_t whole_capture_stride(std::size_t captured, std::size_t least, std::size_t most_copies) {
  return std::max(least, captured / (most_copies - 1) + 1);
}

}  // namespace kvkeep::policy
