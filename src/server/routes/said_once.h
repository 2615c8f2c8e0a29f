#pragma once

// Remembers which lines the log has, so that a client that repeats itself costs one line and not one per request.
//
// Clients choose the words, so that there is a bound: the first `most` different ones are logged, the last of them with
// the remark that no more follow. A client that makes up names fills neither memory nor the log.

#include <cstddef>
#include <set>
#include <string>
#include <string_view>

#include "base/mutex.h"

namespace kvkeep::server {

// Thread safe.
class SaidOnce {
 public:
  enum class Say {
    kNow,
    kNowAndNoMore,  // the last one that there is room for: log that, too
    kNot,           // said before, or there is no room
  };

  explicit SaidOnce(std::size_t most) : most_(most) {}

  Say first(std::string_view words) {
    const MutexLock lock(mutex_);
    if (said_.size() >= most_ || !said_.emplace(words.substr(0, kMostBytes)).second) return Say::kNot;
    return said_.size() == most_ ? Say::kNowAndNoMore : Say::kNow;
  }

  // Only the beginning of longer words counts.
  static constexpr std::size_t kMostBytes = 256;

 private:
  const std::size_t most_;
  Mutex mutex_;
  std::set<std::string, std::less<>> said_ GUARDED_BY(mutex_);
};

}  // namespace kvkeep::server
