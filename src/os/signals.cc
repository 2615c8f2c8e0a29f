#include "os/signals.h"

#include <unistd.h>

#include <csignal>

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

}  // namespace kvkeep::os
