#pragma once

// Why a request waits, and how long it waited for each cause: for the log, the trace and monitors. Pure.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace kvkeep::server {

enum class WaitCause : std::uint8_t {
  kPlace,    // as many requests run as may, or others come first
  kPrefix,   // another request is prefilling, or restoring, a prefix of its prompt
  kCells,    // the model's memory has no room for it
  kDisk,     // its state is read
  kTurn,     // it prefills or restores, and others have the turn
  kEncoder,  // a picture or sound that comes next in its prompt is encoded
};
inline constexpr std::array kWaitCauses = {WaitCause::kPlace, WaitCause::kPrefix, WaitCause::kCells,
                                           WaitCause::kDisk,  WaitCause::kTurn,   WaitCause::kEncoder};
std::string_view to_string(WaitCause cause);

// Milliseconds by cause.
class WaitTimes {
 public:
  double operator[](WaitCause cause) const;
  void add(WaitCause cause, double ms);
  void add(const WaitTimes& others);

 private:
  std::array<double, kWaitCauses.size()> ms_{};
};

// The waits of one request, of which at most one goes on. Times are those of one monotonic clock.
class Waits {
 public:
  // The request waits for this from now on; another wait ends.
  void begin(WaitCause cause, std::int64_t now_ns);
  // It does not wait any more. Without effect if it does not.
  void end(std::int64_t now_ns);
  std::optional<WaitCause> now() const { return cause_; }
  const WaitTimes& ended() const { return ended_; }

 private:
  WaitTimes ended_;
  std::optional<WaitCause> cause_;
  std::int64_t since_ns_ = 0;
};

}  // namespace kvkeep::server
