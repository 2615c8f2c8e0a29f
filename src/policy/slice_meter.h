#pragma once

// How long slices of prefill take on this machine, and how many tokens thus fit into a time. Pure.
//
// A token takes less time in a longer slice, up to some length, and more time the longer the context is. So the time
// per token is kept for each size class (powers of two), and a measurement corrects the other classes as well: longer
// slices are never believed to be slower per token than a shorter one just was, nor shorter ones faster than a longer
// one. Longer classes than the one in use are slowly believed to be faster, by a fifth at most, so that they are tried
// again after a bad moment.

#include <array>
#include <cstddef>
#include <cstdint>

#include "policy/next_call.h"
#include "policy/own_slice.h"

namespace kvkeep::policy {

class SliceMeter {
 public:
  // A slice took so long. Those shorter than a tile say little.
  void note(const SliceAt& at, std::size_t tokens, double ms);

  // Returns the most tokens that take at most `ms`, by what was measured; at most twice what was tried. A multiple of
  // kSliceTile, however long one takes.
  std::size_t within(double ms) const;

  // Returns the least slice that prefills about as fast as any longer one, or one that is tried for that.
  std::size_t efficient() const { return own_.tokens(); }

 private:
  static constexpr std::size_t kClasses = 24;  // by the bits of the number of tokens

  std::array<double, kClasses> ms_per_token_{};  // 0: unknown
  std::size_t longest_ = 0;                      // slice so far
  OwnSlice own_;
};

// A slice that is computed ahead holds up a real request by about `slice_ms`; it has kSliceTile tokens at least.
std::size_t ahead_slice(double prefill_tokens_per_s, double slice_ms);

}  // namespace kvkeep::policy
