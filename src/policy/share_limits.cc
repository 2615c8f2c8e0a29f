#include "policy/share_limits.h"

#include <algorithm>
#include <cmath>

namespace kvkeep::policy {

bool ShareBreaker::wants_probe(std::int64_t now_ns) const {
  return state_ == State::kSuspected || (state_ == State::kOpen && now_ns >= probe_ns_);
}

void ShareBreaker::note_answer(ShareCall call) {
  // An answer may come late, after the failure of a request that was sent at the same time: it does not close.
  if (state_ != State::kClosed) return;
  failures(call) = 0;
  if (call == opened_by_) open_ns_ = 0;
}

bool ShareBreaker::note_failure(ShareCall call, std::int64_t now_ns) {
  // Several requests that were under way at once are one failure: they met the same moment.
  if (state_ != State::kClosed) return false;
  state_ = State::kSuspected;
  if (++failures(call) < kFailuresToOpen) return false;
  open(call, now_ns);
  return true;
}

bool ShareBreaker::note_silence(std::int64_t now_ns) {
  if (state_ != State::kClosed) return false;
  failures(ShareCall::kTransfer) = kFailuresToOpen;
  open(ShareCall::kTransfer, now_ns);
  return true;
}

bool ShareBreaker::note_probe(bool answered, std::int64_t now_ns) {
  if (state_ == State::kClosed) return false;
  if (state_ == State::kSuspected && !answered) {
    if (++failures(ShareCall::kLookup) < kFailuresToOpen) return false;
    open(ShareCall::kLookup, now_ns);
    down_ = true;
    return true;
  }
  if (state_ == State::kOpen) {
    const bool stays_open = !answered || (!down_ && now_ns < open_until_ns_);
    if (!answered) down_ = true;
    if (stays_open) {
      plan_probe(now_ns);
      return false;
    }
    failures_ = {};           // they begin anew, but not the time for which the next opening lasts,
    if (down_) open_ns_ = 0;  // unless it was down, which explains why requests failed
  }
  state_ = State::kClosed;
  return false;
}

void ShareBreaker::open(ShareCall call, std::int64_t now_ns) {
  state_ = State::kOpen;
  opened_by_ = call;
  open_ns_ = open_ns_ == 0 ? kFirstOpenNs : std::min(2 * open_ns_, kLongestOpenNs);
  open_until_ns_ = now_ns + open_ns_;
  down_ = false;
  plan_probe(now_ns);
}

// An answer counts once the time of the opening is over: then one is asked for at once.
void ShareBreaker::plan_probe(std::int64_t now_ns) {
  probe_ns_ = now_ns + kProbeEveryNs;
  if (!down_ && now_ns < open_until_ns_) probe_ns_ = std::min(probe_ns_, open_until_ns_);
}

namespace {

constexpr double kUsualTimes = 4;
constexpr double kDeviations = 8;

}  // namespace

void ShareLatency::note(double ms) {
  constexpr double kWeight = 1.0 / 4;  // of the new sample
  if (usual_ms_ == 0) return begin(ms);
  deviation_ms_ += kWeight * (std::abs(ms - usual_ms_) - deviation_ms_);
  usual_ms_ += kWeight * (ms - usual_ms_);
}

// Of one sample nobody knows how others vary.
void ShareLatency::begin(double ms) {
  usual_ms_ = ms;
  deviation_ms_ = ms / 2;
}

void ShareLatency::note_probe(double ms) {
  if (ms < usual_ms_) begin(ms);
}

void ShareLatency::note_late() {
  const double next_ms = std::min(2 * deadline_ms(), range_.most_ms);
  usual_ms_ = next_ms / (2 * kUsualTimes);
  deviation_ms_ = (next_ms - usual_ms_) / kDeviations;
}

double ShareLatency::deadline_ms() const {
  if (usual_ms_ == 0) return range_.most_ms;
  const double needed_ms = std::max(kUsualTimes * usual_ms_, usual_ms_ + kDeviations * deviation_ms_);
  return std::clamp(needed_ms, range_.least_ms, range_.most_ms);
}

void DividedTime::advance(std::int64_t now_ns) {
  if (under_way_ > 0) charged_ns_ += std::max<std::int64_t>(now_ns - now_ns_, 0) / under_way_;
  now_ns_ = std::max(now_ns_, now_ns);
}

std::int64_t DividedTime::begin(std::int64_t now_ns) {
  advance(now_ns);
  ++under_way_;
  return charged_ns_;
}

std::int64_t DividedTime::end(std::int64_t begun, std::int64_t now_ns) {
  advance(now_ns);
  --under_way_;
  return charged_ns_ - begun;
}

double transfer_deadline_ms(double lookup_deadline_ms, ByteCount bytes, double bytes_per_s) {
  constexpr double kUnknownRate = 16 << 20;
  constexpr double kPatience = 4;
  const double rate = bytes_per_s > 0 ? bytes_per_s : kUnknownRate;
  return lookup_deadline_ms + kPatience * 1000 * static_cast<double>(bytes.value()) / rate;
}

}  // namespace kvkeep::policy
