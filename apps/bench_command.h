#pragma once

// `kvkeep bench`: plays workloads, then prints the results and writes them to files.

#include "base/result.h"
#include "bench_flags.h"

namespace kvkeep::cli {

// Returns the exit status: 0; 1 if a result is wrong; 3 if a goal could not be judged on this machine; 128 + the signal
// that interrupted the run, after all processes and temporary directories are gone. Errors: a workload that cannot be
// read or parsed, a server that does not start, a file that cannot be written.
Result<int> run_bench(const BenchCommandOptions& options);

}  // namespace kvkeep::cli
