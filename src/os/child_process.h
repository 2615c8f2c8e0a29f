#pragma once

// Children of this process. A child is a fresh program (exec), never a bare fork: libraries with threads and devices do
// not survive a fork. It is run to its end (run_child), or runs next to this program, which talks to it by other means
// (start_child: a server under measurement).

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace kvkeep::os {

struct ChildOptions {
  std::string program = {};                 // empty: this process's own binary
  std::vector<std::string> arguments = {};  // without the program's name
  int timeout_ms = 60'000;                  // then the child is killed
  std::size_t max_output_bytes = 1 << 20;   // of its standard output; more is read and dropped
  bool hide_errors = false;                 // its standard error goes nowhere instead of to this process's
};

struct ChildResult {
  int exit_code = 0;       // meaningful if signal == 0
  int signal = 0;          // the signal that ended it, 0 if it exited
  bool timed_out = false;  // killed because its time was over
  std::string output;
  bool succeeded() const { return exit_code == 0 && signal == 0 && !timed_out; }
};

// Runs the child to its end. kIo if it could not be started. A child that fails is not an error here. Thread safe.
Result<ChildResult> run_child(const ChildOptions& options);

struct ChildProcessOptions {
  std::string program;                 // looked up in PATH if it has no slash; empty: this program
  std::vector<std::string> arguments;  // without the program's name
  std::vector<std::pair<std::string, std::string>> environment;  // added to this process's variables, or replacing them
  std::vector<std::string> without = {};                         // this process's variables that the child does not get
  std::string output_path;  // standard output and error are appended there; empty: they go nowhere
};

struct ChildEnd {
  int exit_code = 0;  // meaningful if signal == 0
  int signal = 0;     // the signal that ended it, 0 if it exited
};

// Ended with status 0, or by the signal that terminate() sends.
bool ended_as_asked(const ChildEnd& end);

// Thread safe. The child leads a process group of its own, so that processes that it starts end with it: a wrapper
// script's server, say. The group is killed with SIGKILL when this is destroyed. When this program dies in whatever
// way, the kernel kills only the child. It inherits only the environment: no standard input, no open file, no blocked
// or ignored signal, no signal from the terminal.
class ChildProcess {
 public:
  virtual ~ChildProcess() = default;
  virtual int id() const = 0;
  // Returns nullopt while it runs. Processes that it started may run on after its end.
  virtual std::optional<ChildEnd> ended() = 0;
  // kAborted if it still runs after `limit_ms`.
  virtual Result<ChildEnd> wait(int limit_ms) = 0;
  // Sends the signal to its group, even if the child itself has ended.
  virtual void terminate() = 0;
  virtual void kill() = 0;
  // Returns user and system time of all its threads so far. kIo if it has ended.
  virtual Result<double> cpu_seconds() = 0;
};

// kNotFound if there is no such program, kIo if it could not be started.
Result<std::unique_ptr<ChildProcess>> start_child(const ChildProcessOptions& options);

// For a program that is about to leave without unwinding: kills all groups of children, and returns when the children
// have ended. No child can be started afterwards (kAborted).
void kill_all_children();

}  // namespace kvkeep::os
