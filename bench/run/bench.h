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
  std::string projector;            // of that model; needed for workloads with pictures
  bool model_is_generated = false;  // by gguf::make_model(): replies are tokenized to the sampled ids
  bool quick = false;               // kills wait half a second, whatever the file says
  // Also play kvkeep with a context too small for all sessions, without the RAM tier, and with --restore auto.
  bool variants = false;
  std::vector<std::string> kvkeep_flags;  // added to the bench's own
  std::vector<std::string> peer_command;  // program and flags; -m, -c and -t are added if they are missing
  std::string peer_url;                   // of a running server; its tokens are counted as its replies say
  std::string kvkeep_program;             // empty: this program
};

struct BenchProgress {
  // Called before the first request and after each one.
  std::function<void(const RunFigures& run, std::size_t done, std::size_t requests)> playing;
  std::function<void(const RunFigures& run)> played;
};

// Servers run one after the other, each in a temporary directory of its own. The report lacks facts that only the
// caller knows: title, versions of kvkeep and libllama, parts. kAborted if interrupted. Other errors (kNotFound, kIo):
// kvkeep could not be started for its very first run. Every other failure is a problem of its run; a server that cannot
// be started is not tried again.
Result<Report> run_bench(const BenchOptions& options, const BenchProgress& progress, Interrupt& interrupt);

// Measures the time per token against the peer's, in each setting (parity.h). Precondition: options.peer_command names
// a peer. Errors as above.
Result<std::vector<PartFigures>> run_parity(const BenchOptions& options, std::size_t pairs,
                                            const std::function<void(std::size_t done, std::size_t of)>& progress,
                                            Interrupt& interrupt);

}  // namespace kvkeep::bench
