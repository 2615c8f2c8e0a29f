#pragma once

// This process, and children it runs. A child is a fresh program (exec), never a bare fork: libraries with threads and
// devices do not survive a fork.

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace kvkeep::os {

struct ChildOptions {
  std::string program = {};                 // empty: this process's own binary
  std::vector<std::string> arguments = {};  // without the program's name
  int timeout_ms = 60'000;                  // then the child is killed
  std::size_t max_output_bytes = 1 << 20;   // of its standard output; the rest is read and dropped
  bool hide_errors = false;                 // its standard error goes nowhere instead of to ours
};

struct ChildResult {
  int exit_code = 0;       // meaningful if signal == 0
  int signal = 0;          // the signal that ended it, 0 if it exited
  bool timed_out = false;  // killed by us
  std::string output;
  bool succeeded() const { return exit_code == 0 && signal == 0 && !timed_out; }
};

// Runs the child to its end. kIo: it could not be started. A child that fails is not an error here. Thread safe.
Result<ChildResult> run_child(const ChildOptions& options);

int process_id();
// The most physical memory this process ever had.
ByteCount peak_memory();
// User and system time of this process, all threads.
double cpu_seconds();

}  // namespace kvkeep::os
