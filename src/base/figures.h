#pragma once

// Figures that monitors read: sums of what was moved, and histograms.
//
// Adding a value costs a few comparisons; it allocates nothing and takes no lock. These are plain values: the lock that
// guards the other counts of their owner guards them, and a copy is a snapshot.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/types.h"

namespace kvkeep {

// Bytes that were copied, read or written, and the time that it took.
struct Moved {
  ByteCount bytes;
  double ms = 0;
  void add(ByteCount more, double took_ms) {
    bytes += more;
    ms += took_ms;
  }
};

// Counts of values in fixed ranges: how many were at most each bound, and their sum.
// `kBounds`: the upper bounds of the ranges, ascending, a std::array<double, N>. There is one more range, without one.
template <const auto& kBounds>
class Histogram {
 public:
  // A value that equals a bound counts as at most that bound. NaN and negative values count as 0.
  void add(double value) {
    const double counted = value > 0 ? value : 0;
    const auto range = std::ranges::lower_bound(kBounds, counted) - kBounds.begin();
    ++counts_[static_cast<std::size_t>(range)];
    sum_ += counted;
  }

  static constexpr std::span<const double> bounds() { return kBounds; }
  // Values by range, each in one range; the last range has no bound.
  std::span<const std::uint64_t> counts() const { return counts_; }
  std::uint64_t count() const {
    std::uint64_t all = 0;
    for (const std::uint64_t in_range : counts_) all += in_range;
    return all;
  }
  double sum() const { return sum_; }

 private:
  std::array<std::uint64_t, kBounds.size() + 1> counts_{};
  double sum_ = 0;
};

// Seconds of a step of the server: a millisecond to minutes.
inline constexpr std::array kStepSeconds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,  0.25,
                                            0.5,   1.0,    2.5,   5.0,  10.0,  30.0, 60.0, 300.0};
using StepTimes = Histogram<kStepSeconds>;

// Seconds for which something lay unused: a second to a month.
inline constexpr std::array kIdleSeconds = {1.0,      10.0,     60.0,     300.0,     900.0,     3'600.0,
                                            14'400.0, 43'200.0, 86'400.0, 172'800.0, 604'800.0, 2'592'000.0};
using IdleTimes = Histogram<kIdleSeconds>;

}  // namespace kvkeep
