#pragma once

// Points along a reply while it streams: which stay until it ends, and which then. Pure.
//
// A client that leaves (Esc) has seen less than was sampled, by as much as was on its way to it, and its next prompt
// goes on from there. A point at the reply's end is of no use to it; one a little earlier is. Points are taken at a
// stride and thinned out behind the frontier, so that they lie the wider apart the older they are: a client that saw
// all but the last L strides of a reply finds one less than 2 L + 1 strides before that place, as far as `most`
// reaches; and one less than a stride before it, if L is less than 1.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/types.h"

namespace kvkeep::policy {

// Of one reply.
class StreamedPoints {
 public:
  // Which points are held, oldest first.
  const std::vector<Position>& held() const { return held_; }
  // A point was taken at `at`, after those before. Returns those that leave: at most `most` stay, at least one.
  std::vector<Position> add(Position at, std::size_t most);
  // The reply is over. Its client has all of it: nobody returns into its middle, and all leave. The client left: the
  // last two stay, for it had not seen what lies behind the last one, or behind both. Returns those that leave; nothing
  // is held afterwards.
  std::vector<Position> end(bool client_left);

 private:
  std::vector<Position> held_;
  std::vector<std::uint32_t> ordinals_;  // of each held point among all that were taken, from 1
  std::uint32_t taken_ = 0;
};

// How many points fit beside each other into a share of the RAM budget, at most `most`; 0: not even one.
std::size_t points_that_fit(ByteCount ram_budget, std::size_t share, ByteCount point, std::size_t most);

}  // namespace kvkeep::policy
