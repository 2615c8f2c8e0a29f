#pragma once

// How long a call to the shared tier may take: as a function of how long such calls took. Pure.

#include <cstdint>

#include "base/types.h"

namespace kvkeep::policy {

// Bounds of a look-up's deadline, in milliseconds.
struct DeadlineRange {
  double least_ms = 5;
  double most_ms = 50;
};

// A look-up may take this many times as long as usual.
inline constexpr double kUsualTimes = 8;

// Follows the latency of look-ups at one node. Not thread safe.
class ShareLatency {
 public:
  explicit ShareLatency(DeadlineRange range) : range_(range) {}
  void note(double ms);
  // A deadline passed: the next ones are longer, up to the range's end, so that a node which became slower is measured
  // again instead of failing for ever.
  void note_late();
  // 8 times the usual, inside the range; the most as long as nothing is known.
  double deadline_ms() const;
  // 0: not known yet.
  double usual_ms() const { return usual_ms_; }

 private:
  const DeadlineRange range_;
  double usual_ms_ = 0;
};

// A transfer of so many bytes may take a look-up's deadline and four times as long as the bytes usually take. With an
// unknown rate (0), the rate is taken as 16 MiB/s.
double transfer_deadline_ms(double lookup_deadline_ms, ByteCount bytes, double bytes_per_s);

}  // namespace kvkeep::policy
