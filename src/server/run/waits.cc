#include "server/run/waits.h"

#include <cstddef>
#include <utility>

#include "os/clock.h"

namespace kvkeep::server {

std::string_view to_string(WaitCause cause) {
  switch (cause) {
    case WaitCause::kPlace: return "place";
    case WaitCause::kPrefix: return "prefix";
    case WaitCause::kCells: return "cells";
    case WaitCause::kDisk: return "disk";
    case WaitCause::kTurn: return "turn";
    case WaitCause::kEncoder: return "encoder";
  }
  return "place";
}

double WaitTimes::operator[](WaitCause cause) const { return ms_[static_cast<std::size_t>(cause)]; }

void WaitTimes::add(WaitCause cause, double ms) { ms_[static_cast<std::size_t>(cause)] += ms; }

void WaitTimes::add(const WaitTimes& others) {
  for (const WaitCause cause : kWaitCauses) add(cause, others[cause]);
}

void Waits::begin(WaitCause cause, std::int64_t now_ns) {
  if (cause_ == cause) return;
  end(now_ns);
  cause_ = cause;
  since_ns_ = now_ns;
}

void Waits::end(std::int64_t now_ns) {
  if (!cause_) return;
  ended_.add(*std::exchange(cause_, std::nullopt), os::elapsed_ms(since_ns_, now_ns));
}

}  // namespace kvkeep::server
