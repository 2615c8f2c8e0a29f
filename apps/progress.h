#pragma once

// How far a bench is, on standard error.

#include <string>

#include "bench/run/bench.h"
#include "output.h"

namespace kvkeep::cli {

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
