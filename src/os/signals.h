#pragma once

// Signals that ask a program to end, or a server to open its logs anew: the program waits for them, instead of a
// handler that may do nearly nothing.

#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <thread>

namespace kvkeep::os {

enum class Wish {
  kStop,        // SIGINT, SIGTERM, or SIGHUP because the terminal is gone from which the server was started
  kReopenLogs,  // any other SIGHUP
};

// SIGINT, SIGTERM and SIGHUP. Make one in main's thread before any other thread starts: threads inherit that these
// signals are blocked. Also makes writing to a closed socket, or beyond a limit on file sizes, an error instead of a
// death. A SIGHUP that was ignored before (nohup) stays ignored.
class ServerSignals {
 public:
  ServerSignals();
  // Returns true if SIGINT or SIGTERM arrived and was not waited for yet.
  bool pending() const;
  // Returns when a signal arrives. After kStop, another SIGINT or SIGTERM, a quarter of a second later or more, ends
  // the process at once (status 130), so that a user can leave a hanging shutdown; SIGHUP has no effect then.
  Wish wait();

 private:
  const bool had_terminal_;
};

// For programs that run to an end of their own: lets them unwind when SIGINT, SIGTERM, SIGHUP or SIGQUIT comes, so that
// children are stopped and temporary directories are gone before they exit. A signal that was ignored before (nohup)
// stays ignored.
class SignalWatch {
 public:
  // Make it in main's thread before any other thread starts, like ServerSignals. Once a signal came, `on_signal` is
  // called from a thread of the watch's own, every 100 ms until the destructor: each call also finds work that began
  // after the previous one. After `patience`, or with a second signal, the watch itself kills all children, removes all
  // temporary directories (paths.h) and ends the process.
  explicit SignalWatch(std::function<void()> on_signal,
                       std::chrono::milliseconds patience = std::chrono::milliseconds(5'000));
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;
  // Afterwards signals do what they did before.
  ~SignalWatch();
  // Returns the exit status of a program that this signal ended (130, 143...); 0 if none came.
  int exit_status() const { return exit_status_; }

 private:
  void watch();
  std::function<void()> on_signal_;
  const std::chrono::milliseconds patience_;
  sigset_t watched_{};
  sigset_t mask_before_{};
  std::atomic<int> exit_status_{0};
  std::atomic<bool> done_{false};
  std::thread thread_;
};

}  // namespace kvkeep::os
