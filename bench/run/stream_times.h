#pragma once

// Figures of streams that run at the same time, from the moments at which their pieces came. Pure.

#include <cstdint>
#include <optional>
#include <vector>

#include "bench/run/server_client.h"

namespace kvkeep::bench {

struct StreamTimes {
  std::vector<Piece> pieces;
  std::uint64_t tokens = 0;  // of the whole reply, as the server counts them
};

// Returns the tokens per second of all streams together, from the moment when the last of them had begun until the
// first ended; within a stream tokens count by their bytes. nullopt if there is no such time: one ended before another
// began, or has fewer than two pieces.
std::optional<double> rate_together(const std::vector<StreamTimes>& streams);

// Returns the pauses, in milliseconds, that a reader saw between `from_ns` and `to_ns`: the distance of each piece
// there from the one before it, and the silence at the end if no piece came after it. Empty if nothing came before
// `to_ns`.
std::vector<double> gaps_ms(const std::vector<Piece>& pieces, std::int64_t from_ns, std::int64_t to_ns);

// The nearest rank; `share` is 0 to 1. Precondition: `values` is not empty.
double percentile(std::vector<double> values, double share);

}  // namespace kvkeep::bench
