#pragma once

// SIGINT and SIGTERM as something to wait for, instead of a handler that may do nearly nothing.

namespace kvkeep::os {

// Make one in main's thread before any other thread starts: threads inherit that these signals are blocked. Also makes
// writing to a closed socket, or beyond a limit on file sizes, an error instead of a death.
class ShutdownSignals {
 public:
  ShutdownSignals();
  // True if one arrived and was not waited for yet.
  bool pending() const;
  // Returns when one arrives. A second one then ends the process at once (status 130), so that a hanging shutdown can
  // be left.
  void wait();
};

}  // namespace kvkeep::os
