#include "policy/streamed_points.h"

#include <algorithm>
#include <utility>

namespace kvkeep::policy {

namespace {

constexpr std::size_t kKeptWhenLeft = 2;

// Multiples of 2^j are held for 2^(j+1) strides: of a binary counter's digits the higher ones change the more rarely.
bool is_due(std::uint32_t ordinal, std::uint32_t newest) {
  const std::uint32_t low_bit = ordinal & (~ordinal + 1);
  return newest - ordinal < 2 * std::uint64_t{low_bit};
}

}  // namespace

std::vector<Position> StreamedPoints::add(Position at, std::size_t most) {
  held_.push_back(at);
  ordinals_.push_back(++taken_);
  std::vector<Position> leave;
  std::vector<Position> held;
  std::vector<std::uint32_t> ordinals;
  for (std::size_t i = 0; i < held_.size(); ++i) {
    if (is_due(ordinals_[i], taken_)) {
      held.push_back(held_[i]);
      ordinals.push_back(ordinals_[i]);
    } else {
      leave.push_back(held_[i]);
    }
  }
  const std::size_t over = held.size() - std::min(held.size(), std::max<std::size_t>(most, 1));
  leave.insert(leave.end(), held.begin(), held.begin() + static_cast<std::ptrdiff_t>(over));
  held.erase(held.begin(), held.begin() + static_cast<std::ptrdiff_t>(over));
  ordinals.erase(ordinals.begin(), ordinals.begin() + static_cast<std::ptrdiff_t>(over));
  held_ = std::move(held);
  ordinals_ = std::move(ordinals);
  std::ranges::sort(leave);
  return leave;
}

std::vector<Position> StreamedPoints::end(bool client_left) {
  std::vector<Position> leave = std::exchange(held_, {});
  ordinals_.clear();
  taken_ = 0;
  if (client_left) leave.resize(leave.size() - std::min(leave.size(), kKeptWhenLeft));
  return leave;
}

std::size_t points_that_fit(ByteCount ram_budget, std::size_t share, ByteCount point, std::size_t most) {
  if (point == ByteCount{}) return most;
  return std::min<std::uint64_t>(most, ram_budget.value() / share / point.value());
}

}  // namespace kvkeep::policy
