#pragma once

// What `kvkeep demo` prints: a line per turn while it plays, then both runs next to each other. Pure.

#include <cstddef>
#include <string>

#include "bench/report/figures.h"

namespace kvkeep::bench {

// The line above those of demo_turn().
std::string demo_heading();
// A bar of cached and prefilled tokens, the counts, where the cached ones came from, and TTFT. One line without its
// end.
std::string demo_turn(const RequestFigures& turn);

// The turns of both runs, their sums and the ratios. `kill_before`: the first turn after the kill, counted from 0.
// Precondition: both runs have the same turns, at least one.
std::string demo_comparison(const RunFigures& with_cache, const RunFigures& without, std::size_t kill_before,
                            std::size_t equal_replies);

}  // namespace kvkeep::bench
