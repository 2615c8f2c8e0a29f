#pragma once

// For this room's tests: positions and times as plain numbers.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "base/types.h"

namespace kvkeep::policy {

inline constexpr std::int64_t kHourNs = 3'600'000'000'000;

inline Position at(std::size_t value) { return Position{static_cast<std::uint32_t>(value)}; }

inline std::vector<Position> positions(std::initializer_list<std::size_t> values) {
  std::vector<Position> out;
  for (const std::size_t value : values) out.push_back(at(value));
  return out;
}

}  // namespace kvkeep::policy
