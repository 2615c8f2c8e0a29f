#pragma once

// `kvkeep bench`: plays workloads against kvkeep and a peer in turn and makes the report.

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/report/figures.h"
#include "bench/run/interrupt.h"
#include "bench/workloads/workload.h"

namespace kvkeep::bench {

struct BenchOptions {
  std::vector<Workload> workloads;
  std::string model;                // path of a GGUF file
  bool model_is_generated = false;  // by gguf::make_model(): replies tokenize to the ids sampled
  bool quick = false;               // kills wait half a second instead of what the file says
  // Also play kvkeep with a context too small for all sessions, without the RAM tier, and with --restore auto.
  bool variants = false;
  std::vector<std::string> kvkeep_flags;  // added to ours
  std::vector<std::string> peer_command;  // program and flags; -m, -c and -t are added where they are missing
  std::string peer_url;                   // of a running server; its tokens are counted by what it says
  std::string kvkeep_program;             // empty: this program
};

struct BenchProgress {
  // Before the first request and after each one.
  std::function<void(const RunFigures& run, std::size_t done, std::size_t requests)> playing;
  std::function<void(const RunFigures& run)> played;
};

// Servers run one after the other, each in a temporary directory of its own. The report lacks what only the program
// knows: title, versions of kvkeep and libllama, parts. kAborted: interrupted. Other errors: kvkeep could not be
// started for its very first run (kNotFound, kIo). Everything else that goes wrong is a problem of the run; a server
// that cannot be started is not tried again.
Result<Report> run_bench(const BenchOptions& options, const BenchProgress& progress, Interrupt& interrupt);

// Time per token beside the peer's, in each setting (parity.h). Precondition: options.peer_command names one. Errors as
// above.
Result<std::vector<PartFigures>> run_parity(const BenchOptions& options, std::size_t pairs,
                                            const std::function<void(std::size_t done, std::size_t of)>& progress,
                                            Interrupt& interrupt);

}  // namespace kvkeep::bench
