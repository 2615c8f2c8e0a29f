// A child is made by fork and exec, because posix_spawn cannot set the signal that the kernel sends a child when its
// parent dies. Everything that allocates happens before the fork: between fork and exec only async-signal-safe calls
// are allowed in a process with threads.

#include "os/child_process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <set>
#include <thread>

#include "base/mutex.h"
#include "os/environment.h"
#include "os/executor.h"
#include "os/find_program.h"

namespace kvkeep::os {
namespace {

constexpr char kThisProgram[] = "/proc/self/exe";

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close(); }
  int get() const { return value_; }
  void close() {
    if (value_ >= 0) ::close(std::exchange(value_, -1));
  }

 private:
  int value_;
};

Result<std::string> program_of(const ChildProcessOptions& options) {
  if (options.program.empty()) return std::string(kThisProgram);
  return find_program(options.program);
}

// The arguments of execve, in memory of their own.
class TextList {
 public:
  explicit TextList(std::vector<std::string> texts) : texts_(std::move(texts)) {
    for (std::string& text : texts_) pointers_.push_back(text.data());
    pointers_.push_back(nullptr);
  }
  TextList(const TextList&) = delete;
  TextList& operator=(const TextList&) = delete;
  char* const* get() { return pointers_.data(); }

 private:
  std::vector<std::string> texts_;
  std::vector<char*> pointers_;
};

std::vector<std::string> arguments_of(const ChildProcessOptions& options, const std::string& program) {
  std::vector<std::string> arguments{options.program.empty() ? program : options.program};
  arguments.insert(arguments.end(), options.arguments.begin(), options.arguments.end());
  return arguments;
}

std::vector<std::string> environment_of(const ChildProcessOptions& options) {
  Environment environment = read_environment();
  for (const std::string& name : options.without) environment.erase(name);
  for (const auto& [name, value] : options.environment) environment[name] = value;
  std::vector<std::string> lines;
  for (const auto& [name, value] : environment) lines.push_back(name + "=" + value);
  return lines;
}

// All that the child needs between fork and exec.
struct Launch {
  const char* program;
  char* const* arguments;
  char* const* environment;
  int input;
  int output;
  int report;  // errno of a failed exec is written there; a successful one closes it
  pid_t parent;
};

void restore_signals() {
  // Handlers are reset by exec; ignored and blocked signals are not, and this process may block SIGTERM.
  for (const int number : {SIGPIPE, SIGXFSZ, SIGINT, SIGTERM, SIGHUP, SIGQUIT}) ::signal(number, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

// Async-signal-safe calls only.
[[noreturn]] void become_program(const Launch& launch) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have died before the line above.
  if (::getppid() != launch.parent) ::_exit(127);
  ::setpgid(0, 0);  // cannot fail here
  restore_signals();
  ::dup2(launch.input, STDIN_FILENO);
  ::dup2(launch.output, STDOUT_FILENO);
  ::dup2(launch.output, STDERR_FILENO);
  constexpr unsigned kFirstOther = 3;
  constexpr unsigned kCloseOnExec = 1U << 2;  // CLOSE_RANGE_CLOEXEC
  ::syscall(SYS_close_range, kFirstOther, ~0U, kCloseOnExec);
  ::execve(launch.program, launch.arguments, launch.environment);
  const int error = errno;
  [[maybe_unused]] const ssize_t written = ::write(launch.report, &error, sizeof error);
  ::_exit(127);
}

// The kernel takes the death of the *thread* that forked for the parent's death. This thread lives until the process
// exits, so callers may start children from threads that end.
Executor& starter_thread() {
  static const std::unique_ptr<Executor> thread = make_thread_executor("children");
  return *thread;
}

Result<pid_t> launch(const std::string& program, const ChildProcessOptions& options) {
  const char* output_path = options.output_path.empty() ? "/dev/null" : options.output_path.c_str();
  const Descriptor input(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const Descriptor output(::open(output_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
  if (input.get() < 0 || output.get() < 0) return io_error(std::string(output_path) + ": " + std::strerror(errno));
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return io_error(std::string("pipe: ") + std::strerror(errno));
  const Descriptor report_read(ends[0]);
  Descriptor report_write(ends[1]);
  TextList arguments(arguments_of(options, program));
  TextList environment(environment_of(options));
  const Launch plan{program.c_str(), arguments.get(),    environment.get(), input.get(),
                    output.get(),    report_write.get(), ::getpid()};
  const pid_t child = ::fork();
  if (child < 0) return io_error("start " + program + ": " + std::strerror(errno));
  if (child == 0) become_program(plan);
  report_write.close();
  int error = 0;
  ssize_t count = 0;
  while ((count = ::read(report_read.get(), &error, sizeof error)) < 0 && errno == EINTR) {}
  if (count != sizeof error) return child;
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {}
  return io_error("start " + program + ": " + std::strerror(error));
}

// The groups of all children that were not collected yet, so that a program that leaves at once can end them.
struct Groups {
  Mutex mutex;
  std::set<pid_t> ids GUARDED_BY(mutex);
  bool closed GUARDED_BY(mutex) = false;
};

Groups& groups() {
  static Groups all;
  return all;
}

Result<pid_t> launch_in_group(const std::string& program, const ChildProcessOptions& options) {
  const MutexLock lock(groups().mutex);
  if (groups().closed) return aborted("start " + program + ": this program is leaving");
  TRY_ASSIGN(const pid_t child, launch(program, options));
  groups().ids.insert(child);
  return child;
}

// Leaves the child uncollected: until then nobody else is given its id, neither as a process nor as a group.
std::optional<ChildEnd> look_for_end(pid_t id, int flags) {
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(id), &info, WEXITED | WNOWAIT | flags) < 0 && errno == EINTR) {}
  if (info.si_pid != id) return std::nullopt;
  ChildEnd end;
  (info.si_code == CLD_EXITED ? end.exit_code : end.signal) = info.si_status;
  return end;
}

// Asks now, and again until it is so or the time is over.
bool poll_until(int limit_ms, const std::function<bool()>& is_so) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::milliseconds(limit_ms);
  auto pause = std::chrono::milliseconds(1);
  while (true) {
    if (is_so()) return true;
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::milliseconds(10));
  }
}

bool port_answers(int port) {
  const Descriptor probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  // A socket that is given the very port it connects to would answer itself: from another address it cannot.
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
  if (::bind(probe.get(), plain, sizeof address) != 0) return true;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  if (::connect(probe.get(), plain, sizeof address) == 0) return true;
  if (errno != EINPROGRESS) return errno != ECONNREFUSED;
  constexpr int kSettledMs = 100;  // a listener whose queue is full says nothing
  pollfd wait{.fd = probe.get(), .events = POLLOUT, .revents = 0};
  int error = 0;
  socklen_t size = sizeof error;
  if (::poll(&wait, 1, kSettledMs) > 0) ::getsockopt(probe.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error != ECONNREFUSED;
}

class RealChildProcess final : public ChildProcess {
 public:
  explicit RealChildProcess(pid_t id) : id_(id) {}
  ~RealChildProcess() override {
    kill();
    look_for_end(id_, 0);
    const MutexLock lock(groups().mutex);
    while (::waitpid(id_, nullptr, 0) < 0 && errno == EINTR) {}
    groups().ids.erase(id_);
  }

  int id() const override { return id_; }

  std::optional<ChildEnd> ended() override {
    const MutexLock lock(mutex_);
    if (!end_) end_ = look_for_end(id_, WNOHANG);
    return end_;
  }

  Result<ChildEnd> wait(int limit_ms) override {
    if (poll_until(limit_ms, [this] { return ended().has_value(); })) return *ended();
    return aborted("process " + std::to_string(id_) + " still runs");
  }

  void terminate() override { ::kill(-id_, SIGTERM); }
  void kill() override { ::kill(-id_, SIGKILL); }

  Result<double> cpu_seconds() override {
    clockid_t clock{};
    timespec time{};
    if (ended() || ::clock_getcpuclockid(id_, &clock) != 0 || ::clock_gettime(clock, &time) != 0) {
      return io_error("process " + std::to_string(id_) + " has ended");
    }
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
  }

 private:
  const pid_t id_;
  Mutex mutex_;
  std::optional<ChildEnd> end_ GUARDED_BY(mutex_);
};

}  // namespace

bool ended_as_asked(const ChildEnd& end) { return end.signal == SIGTERM || (end.signal == 0 && end.exit_code == 0); }

Result<std::unique_ptr<ChildProcess>> start_child(const ChildProcessOptions& options) {
  TRY_ASSIGN(const std::string program, program_of(options));
  Executor& thread = starter_thread();
  Result<pid_t> child = io_error("not started");
  thread.post([&] { child = launch_in_group(program, options); });
  thread.drain();
  if (!child) return child.error();
  return std::unique_ptr<ChildProcess>(std::make_unique<RealChildProcess>(*child));
}

void kill_all_children() {
  const MutexLock lock(groups().mutex);
  groups().closed = true;
  for (const pid_t id : groups().ids) ::kill(-id, SIGKILL);
  for (const pid_t id : groups().ids) look_for_end(id, 0);
}

Result<int> free_port() {
  const Descriptor probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  if (probe.get() < 0 || ::bind(probe.get(), plain, size) != 0 || ::getsockname(probe.get(), plain, &size) != 0) {
    return io_error(std::string("no free port: ") + std::strerror(errno));
  }
  return ntohs(address.sin_port);
}

bool wait_until_port_is_free(int port, int limit_ms) {
  return poll_until(limit_ms, [port] { return !port_answers(port); });
}

}  // namespace kvkeep::os
