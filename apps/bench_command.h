#pragma once

// `kvkeep bench`: plays workloads, prints and writes what was found.

#include "base/result.h"
#include "bench_flags.h"

namespace kvkeep::cli {

// The exit status: 0; 1 if something is wrong with what was found; 128 + the signal that interrupted it, with no
// process and no temporary directory left. Errors: a workload that cannot be read or understood, a server that cannot
// be started, a file that cannot be written.
Result<int> run_bench(const BenchCommandOptions& options);

}  // namespace kvkeep::cli
