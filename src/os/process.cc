#include "os/process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

extern char** environ;

namespace kvkeep::os {
namespace {

using Deadline = std::chrono::steady_clock::time_point;

int left_ms(Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1 << 30));
}

// The child's file table: no input, output to our pipe, errors to ours or nowhere.
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
  std::string program = options.program.empty() ? "/proc/self/exe" : options.program;
  std::vector<std::string> arguments = options.arguments;
  std::vector<char*> argv{program.data()};
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const SpawnActions actions(output, options.hide_errors);
  pid_t child = 0;
  const int error = ::posix_spawn(&child, program.c_str(), actions.get(), nullptr, argv.data(), environ);
  if (error != 0) return io_error("start " + program + ": " + std::strerror(error));
  return child;
}

// Reads until the child closes its output. False: the time ran out.
bool collect_output(int pipe, Deadline deadline, std::size_t limit, std::string& output) {
  std::array<char, 4096> chunk;
  while (true) {
    pollfd waiting{.fd = pipe, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&waiting, 1, left_ms(deadline));
    if (ready == 0) return false;
    if (ready < 0 && errno == EINTR) continue;
    const ssize_t count = ::read(pipe, chunk.data(), chunk.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return true;
    output.append(chunk.data(), std::min(static_cast<std::size_t>(count), limit - output.size()));
  }
}

// A child may close its output and go on, so waiting for its end has the same deadline.
bool wait_for_exit(pid_t child, Deadline deadline, int& status) {
  while (true) {
    const pid_t ended = ::waitpid(child, &status, WNOHANG);
    if (ended == child) return true;
    if (ended < 0 && errno != EINTR) return false;
    if (left_ms(deadline) == 0) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

ChildResult finish(pid_t child, bool timed_out, int status, std::string output) {
  if (timed_out) {
    ::kill(child, SIGKILL);
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  }
  ChildResult result{.timed_out = timed_out, .output = std::move(output)};
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  return result;
}

}  // namespace

Result<ChildResult> run_child(const ChildOptions& options) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return io_error(std::string("pipe: ") + std::strerror(errno));
  const Deadline deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(options.timeout_ms);
  const Result<pid_t> child = spawn(options, ends[1]);
  ::close(ends[1]);
  if (!child) {
    ::close(ends[0]);
    return child.error();
  }
  std::string output;
  int status = 0;
  const bool in_time =
      collect_output(ends[0], deadline, options.max_output_bytes, output) && wait_for_exit(*child, deadline, status);
  ::close(ends[0]);
  return finish(*child, !in_time, status, std::move(output));
}

int process_id() { return ::getpid(); }

ByteCount peak_memory() {
  struct rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return ByteCount{static_cast<std::uint64_t>(usage.ru_maxrss) << 10};
}

double cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

}  // namespace kvkeep::os
