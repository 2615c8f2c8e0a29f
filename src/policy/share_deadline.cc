#include "policy/share_deadline.h"

#include <algorithm>

namespace kvkeep::policy {

void ShareLatency::note(double ms) {
  constexpr double kWeight = 1.0 / 4;  // of the new sample
  usual_ms_ = usual_ms_ == 0 ? ms : usual_ms_ + kWeight * (ms - usual_ms_);
}

void ShareLatency::note_late() { usual_ms_ = std::min(2 * deadline_ms(), range_.most_ms) / kUsualTimes; }

double ShareLatency::deadline_ms() const {
  if (usual_ms_ == 0) return range_.most_ms;
  return std::clamp(kUsualTimes * usual_ms_, range_.least_ms, range_.most_ms);
}

double transfer_deadline_ms(double lookup_deadline_ms, ByteCount bytes, double bytes_per_s) {
  constexpr double kUnknownRate = 16 << 20;
  constexpr double kPatience = 4;
  const double rate = bytes_per_s > 0 ? bytes_per_s : kUnknownRate;
  return lookup_deadline_ms + kPatience * 1000 * static_cast<double>(bytes.value()) / rate;
}

}  // namespace kvkeep::policy
