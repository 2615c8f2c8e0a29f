#include "os/signals.h"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <ctime>
#include <utility>

namespace kvkeep::os {

namespace {

sigset_t shutdown_set() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

void leave_at_once(int /*signal*/) { _exit(130); }

}  // namespace

ShutdownSignals::ShutdownSignals() {
  const sigset_t set = shutdown_set();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

bool ShutdownSignals::pending() const {
  sigset_t waiting;
  sigpending(&waiting);
  return sigismember(&waiting, SIGINT) == 1 || sigismember(&waiting, SIGTERM) == 1;
}

void ShutdownSignals::wait() {
  const sigset_t set = shutdown_set();
  int signal = 0;
  while (sigwait(&set, &signal) != 0) {}
  std::signal(SIGINT, leave_at_once);
  std::signal(SIGTERM, leave_at_once);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

SignalWatch::SignalWatch(std::function<void()> on_signal) : on_signal_(std::move(on_signal)) {
  const sigset_t set = shutdown_set();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  thread_ = std::thread([this] { watch(); });
}

SignalWatch::~SignalWatch() {
  done_ = true;
  thread_.join();
  const sigset_t set = shutdown_set();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

void SignalWatch::watch() {
  const sigset_t set = shutdown_set();
  const timespec pause{.tv_sec = 0, .tv_nsec = 100'000'000};
  int number = -1;
  while (!done_ && number < 0) number = sigtimedwait(&set, nullptr, &pause);
  if (number < 0) return;
  exit_status_ = 128 + number;
  std::signal(SIGINT, leave_at_once);
  std::signal(SIGTERM, leave_at_once);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  while (!done_) {
    on_signal_();
    std::this_thread::sleep_for(std::chrono::nanoseconds(pause.tv_nsec));
  }
}

}  // namespace kvkeep::os
