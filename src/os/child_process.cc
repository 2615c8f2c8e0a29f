// A child that runs next to this program is made by fork and exec, because posix_spawn cannot set the signal that the
// kernel sends to a child when its parent dies. All allocation happens before the fork: between fork and exec, a
// process with threads may make only async-signal-safe calls.

#include "os/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <set>

#include "base/mutex.h"
#include "os/descriptor.h"
#include "os/executor.h"
#include "os/process.h"
#include "os/threads.h"

namespace kvkeep::os {
namespace {

constexpr char kThisProgram[] = "/proc/self/exe";

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

// ---- run_child ----

using Deadline = std::chrono::steady_clock::time_point;

int left_ms(Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1 << 30));
}

// The child's file table: no input, output to this process's pipe, errors to this process's or nowhere.
class SpawnActions {
 public:
  SpawnActions(int output, bool hide_errors) {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions_, output, 1);
    if (hide_errors) ::posix_spawn_file_actions_addopen(&actions_, 2, "/dev/null", O_WRONLY, 0);
  }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;
  ~SpawnActions() { ::posix_spawn_file_actions_destroy(&actions_); }
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

Result<pid_t> spawn(const ChildOptions& options, int output) {
  const std::string program = options.program.empty() ? kThisProgram : options.program;
  std::vector<std::string> texts{program};
  texts.insert(texts.end(), options.arguments.begin(), options.arguments.end());
  TextList arguments(std::move(texts));
  const SpawnActions actions(output, options.hide_errors);
  pid_t child = 0;
  const int error = ::posix_spawn(&child, program.c_str(), actions.get(), nullptr, arguments.get(), environ);
  if (error != 0) return io_error("start " + program + ": " + std::strerror(error));
  return child;
}

// Reads until the child closes its output. Returns false if the time ran out.
bool collect_output(int pipe, Deadline deadline, std::size_t limit, std::string& output) {
  std::array<char, 4096> chunk;
  while (true) {
    pollfd waiting{.fd = pipe, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&waiting, 1, left_ms(deadline));
    if (ready == 0) return false;
    if (ready < 0 && errno == EINTR) continue;
    const ssize_t count = uninterrupted([&] { return ::read(pipe, chunk.data(), chunk.size()); });
    if (count <= 0) return true;
    output.append(chunk.data(), std::min(static_cast<std::size_t>(count), limit - output.size()));
  }
}

// A child may close its output and run on, so that waiting for its end has the same deadline.
bool wait_for_exit(pid_t child, Deadline deadline, int& status) {
  return wait_until(left_ms(deadline), [&] { return ::waitpid(child, &status, WNOHANG) == child; });
}

// Makes the result of a child that has ended.
ChildResult finish(pid_t child, bool timed_out, int status, std::string output) {
  if (timed_out) {
    ::kill(child, SIGKILL);
    uninterrupted([&] { return ::waitpid(child, &status, 0); });
  }
  ChildResult result{.timed_out = timed_out, .output = std::move(output)};
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  return result;
}

// ---- start_child ----

Result<std::string> program_of(const ChildProcessOptions& options) {
  if (options.program.empty()) return std::string(kThisProgram);
  return find_program(options.program);
}

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

// The data that the child needs between fork and exec.
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

// Makes only async-signal-safe calls.
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
// exits, so that threads that end may start children.
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
  const ssize_t count = uninterrupted([&] { return ::read(report_read.get(), &error, sizeof error); });
  if (count != sizeof error) return child;
  uninterrupted([&] { return ::waitpid(child, nullptr, 0); });
  return io_error("start " + program + ": " + std::strerror(error));
}

// The groups of all children that were not collected yet: a program that leaves at once can end them.
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

// Leaves the child uncollected: until it is collected, no other process or group gets its id.
std::optional<ChildEnd> look_for_end(pid_t id, int flags) {
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(id), &info, WEXITED | WNOWAIT | flags) < 0 && errno == EINTR) {}
  if (info.si_pid != id) return std::nullopt;
  ChildEnd end;
  (info.si_code == CLD_EXITED ? end.exit_code : end.signal) = info.si_status;
  return end;
}

class RealChildProcess final : public ChildProcess {
 public:
  explicit RealChildProcess(pid_t id) : id_(id) {}
  ~RealChildProcess() override {
    kill();
    look_for_end(id_, 0);
    const MutexLock lock(groups().mutex);
    uninterrupted([&] { return ::waitpid(id_, nullptr, 0); });
    groups().ids.erase(id_);
  }

  int id() const override { return id_; }

  std::optional<ChildEnd> ended() override {
    const MutexLock lock(mutex_);
    if (!end_) end_ = look_for_end(id_, WNOHANG);
    return end_;
  }

  Result<ChildEnd> wait(int limit_ms) override {
    if (wait_until(limit_ms, [this] { return ended().has_value(); })) return *ended();
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

Result<ChildResult> run_child(const ChildOptions& options) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return io_error(std::string("pipe: ") + std::strerror(errno));
  const Descriptor output_end(ends[0]);
  Descriptor input(ends[1]);
  const Deadline deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(options.timeout_ms);
  const Result<pid_t> child = spawn(options, input.get());
  input.close();
  if (!child) return child.error();
  std::string output;
  int status = 0;
  const bool in_time = collect_output(output_end.get(), deadline, options.max_output_bytes, output) &&
                       wait_for_exit(*child, deadline, status);
  return finish(*child, !in_time, status, std::move(output));
}

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

}  // namespace kvkeep::os
