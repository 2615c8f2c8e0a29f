#pragma once

// For this room's tests: sequences, token ranges, and sampling that always takes the likeliest token.

#include <cstddef>
#include <vector>

#include "engine/fake/fake_engine.h"

namespace kvkeep::engine::fake {

using Text = std::vector<TokenId>;

inline constexpr SeqId kFirst{0};
inline constexpr SeqId kSecond{1};

inline SamplingParams greedy() {
  SamplingParams params;
  params.temperature = 0.0F;
  return params;
}

inline TokenRange range(std::size_t begin, std::size_t end) { return {Position{} + begin, Position{} + end}; }

}  // namespace kvkeep::engine::fake
