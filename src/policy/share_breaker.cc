#include "policy/share_breaker.h"

#include <algorithm>

namespace kvkeep::policy {

bool ShareBreaker::wants_probe(std::int64_t now_ns) const {
  return state_ == State::kSuspected || (state_ == State::kOpen && now_ns >= open_until_ns_);
}

void ShareBreaker::note_answer() {
  // An answer may come late, after the failure of a request that was sent at the same time: it does not close.
  if (state_ != State::kClosed) return;
  failures_ = 0;
  open_ns_ = 0;
}

bool ShareBreaker::note_failure(std::int64_t now_ns) {
  // Several requests that were under way at once are one failure: they met the same moment.
  if (state_ != State::kClosed) return false;
  state_ = State::kSuspected;
  if (++failures_ < kFailuresToOpen) return false;
  open(now_ns);
  return true;
}

bool ShareBreaker::note_probe(bool answered, std::int64_t now_ns) {
  if (state_ == State::kClosed) return false;
  if (answered) {
    // After an opening the failures begin anew, but not the time for which the next one lasts.
    if (state_ == State::kOpen) failures_ = 0;
    state_ = State::kClosed;
    return false;
  }
  const bool opens = state_ == State::kSuspected && ++failures_ >= kFailuresToOpen;
  if (opens || state_ == State::kOpen) open(now_ns);
  return opens;
}

void ShareBreaker::open(std::int64_t now_ns) {
  state_ = State::kOpen;
  open_ns_ = open_ns_ == 0 ? kFirstOpenNs : std::min(2 * open_ns_, kLongestOpenNs);
  open_until_ns_ = now_ns + open_ns_;
}

}  // namespace kvkeep::policy
