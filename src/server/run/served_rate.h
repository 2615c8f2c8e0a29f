#pragma once

// How long a client that is refused now should wait until it tries again (Retry-After): until those that wait will have
// been served, at the pace of the last ones. Pure: times are those of one monotonic clock. Not thread safe.
//
// The pace is measured over the time in which any reply is open: the hours of a night in which nobody asks are no sign
// of a slow server. Until a first reply has been served, the time so far counts as if one had just been.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>

namespace kvkeep::server {

class ServedRate {
 public:
  // Replies that the pace is taken from: enough for an average, and few enough to follow a change of load.
  static constexpr std::size_t kMostCounted = 64;
  // A client that comes again sooner, or later, gains nothing: a second is short next to a reply, and within a minute
  // others may have left.
  static constexpr double kLeastSeconds = 1;
  static constexpr double kMostSeconds = 60;

  // A reply is open, and none was before.
  void begin(std::int64_t now_ns) {
    busy_since_ns_ = now_ns;
    paused_ = false;
  }
  // A reply that had a place ended.
  void note_served(std::int64_t now_ns) {
    ends_ns_.push_back(busy_ns(now_ns));
    if (ends_ns_.size() <= kMostCounted) return;
    counted_from_ns_ = ends_ns_.front();
    ends_ns_.pop_front();
  }
  // No reply is open any more; begin() follows.
  void pause(std::int64_t now_ns) {
    busy_before_ns_ = busy_ns(now_ns);
    paused_ = true;
  }

  // Whole seconds, kLeastSeconds to kMostSeconds.
  std::int64_t seconds_for(std::size_t waiting, std::int64_t now_ns) const {
    const double served = static_cast<double>(std::max<std::size_t>(1, ends_ns_.size()));
    const double seconds = static_cast<double>(busy_ns(now_ns) - counted_from_ns_) / 1e9;
    const double until_served = static_cast<double>(waiting) * seconds / served;
    return static_cast<std::int64_t>(std::clamp(std::ceil(until_served), kLeastSeconds, kMostSeconds));
  }

 private:
  // So long were any replies open until then.
  std::int64_t busy_ns(std::int64_t now_ns) const {
    return busy_before_ns_ + (paused_ ? 0 : std::max<std::int64_t>(0, now_ns - busy_since_ns_));
  }

  std::int64_t busy_before_ns_ = 0;  // until the last pause
  std::int64_t busy_since_ns_ = 0;
  bool paused_ = true;
  std::deque<std::int64_t> ends_ns_;  // of the last replies, in time during which any were open
  std::int64_t counted_from_ns_ = 0;  // the end of the one before them
};

}  // namespace kvkeep::server
