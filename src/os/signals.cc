#include "os/signals.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <utility>

#include "os/child_process.h"
#include "os/descriptor.h"
#include "os/paths.h"

namespace kvkeep::os {

namespace {

sigset_t shutdown_set() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

constexpr timespec kNoTime{.tv_sec = 0, .tv_nsec = 0};
constexpr timespec kPause{.tv_sec = 0, .tv_nsec = 100'000'000};
// timeout(1) and terminals may send a signal twice; two signals count as two only after this time.
constexpr std::chrono::milliseconds kOneWish{250};

std::atomic<std::int64_t> first_wish_ns = 0;  // when ServerSignals::wait() returned kStop, on the monotonic clock
static_assert(std::atomic<std::int64_t>::is_always_lock_free, "read by a signal handler");

std::int64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);  // may be called by a signal handler
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void leave_at_once(int /*signal*/) {
  if (std::chrono::nanoseconds(monotonic_ns() - first_wish_ns) >= kOneWish) _exit(130);
}

bool is_ignored(int number) {
  struct sigaction action{};
  return sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

// Returns true if this process has a controlling terminal that still exists.
bool has_terminal() { return Descriptor(::open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC)).valid(); }

[[noreturn]] void leave_nothing_behind(int status) {
  kill_all_children();
  remove_all_temporary_directories();
  _exit(status);
}

}  // namespace

ServerSignals::ServerSignals() : had_terminal_(has_terminal()) {
  sigset_t set = shutdown_set();
  // A blocked signal waits even if it was ignored before.
  if (!is_ignored(SIGHUP)) sigaddset(&set, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

bool ServerSignals::pending() const {
  sigset_t waiting;
  sigpending(&waiting);
  return sigismember(&waiting, SIGINT) == 1 || sigismember(&waiting, SIGTERM) == 1;
}

Wish ServerSignals::wait() {
  const sigset_t ends = shutdown_set();
  sigset_t set = ends;
  sigaddset(&set, SIGHUP);
  int signal = 0;
  while (sigwait(&set, &signal) != 0) {}
  // A terminal that closes sends SIGHUP as well: its server would go on unseen, and keep the model's memory.
  if (signal == SIGHUP && !(had_terminal_ && !has_terminal())) return Wish::kReopenLogs;
  first_wish_ns = monotonic_ns();
  std::signal(SIGINT, leave_at_once);
  std::signal(SIGTERM, leave_at_once);
  pthread_sigmask(SIG_UNBLOCK, &ends, nullptr);
  return Wish::kStop;
}

SignalWatch::SignalWatch(std::function<void()> on_signal, std::chrono::milliseconds patience)
    : on_signal_(std::move(on_signal)), patience_(patience) {
  sigemptyset(&watched_);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    // A blocked signal waits even if it was ignored before.
    if (!is_ignored(number)) sigaddset(&watched_, number);
  }
  pthread_sigmask(SIG_BLOCK, &watched_, &mask_before_);
  std::signal(SIGPIPE, SIG_IGN);
  thread_ = std::thread([this] { watch(); });
}

SignalWatch::~SignalWatch() {
  done_ = true;
  thread_.join();
  // A signal that came while the program unwound has been obeyed.
  if (exit_status_ != 0) {
    while (sigtimedwait(&watched_, nullptr, &kNoTime) > 0) {}
  }
  pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
}

void SignalWatch::watch() {
  using Steady = std::chrono::steady_clock;
  int number = -1;
  while (!done_ && number < 0) number = sigtimedwait(&watched_, nullptr, &kPause);
  if (number < 0) return;
  exit_status_ = 128 + number;
  const Steady::time_point came = Steady::now();
  while (!done_) {
    on_signal_();
    const bool again = sigtimedwait(&watched_, nullptr, &kPause) > 0;
    const auto waited = Steady::now() - came;
    if (!done_ && (waited >= patience_ || (again && waited >= kOneWish))) leave_nothing_behind(exit_status_);
  }
}

}  // namespace kvkeep::os
