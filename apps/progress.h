#pragma once

// Progress on standard error: one line on a terminal, and how far a bench is.

#include <cstdio>
#include <string>

#include "bench/run/bench.h"
#include "os/process.h"

namespace kvkeep::cli {

class StatusLine {
 public:
  StatusLine() = default;
  ~StatusLine() { clear(); }
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  void show(const std::string& text) const {
    if (!shown_) return;
    std::fprintf(stderr, "\r\033[K%s", text.c_str());
    std::fflush(stderr);
  }
  void clear() const { show(""); }

 private:
  const bool shown_ = os::errors_go_to_a_terminal();
};

// Shows how far a bench is, on standard error: a bar on a terminal, else a line per workload and server.
class BenchProgress {
 public:
  explicit BenchProgress(const bench::BenchOptions& options);

  // The callbacks refer to this object.
  bench::BenchProgress callbacks();
  void show(const std::string& what, std::size_t done, std::size_t of);

 private:
  void print_line(const bench::RunFigures& run);
  StatusLine line_;
  std::size_t total_ = 0;     // requests of all runs
  std::size_t finished_ = 0;  // requests of runs that ended
  std::size_t current_ = 0;   // requests of the run under way
};

}  // namespace kvkeep::cli
