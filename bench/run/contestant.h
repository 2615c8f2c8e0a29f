#pragma once

// Who takes part in a bench, and the command line each is started with.

#include <string>
#include <vector>

#include "base/result.h"
#include "bench/report/figures.h"
#include "bench/run/bench.h"
#include "bench/run/interrupt.h"
#include "bench/run/parity.h"
#include "bench/run/server_process.h"

namespace kvkeep::bench {

struct Contestant {
  std::string name;                // of a ServerInfo
  std::string variant;             // of kvkeep; empty: its usual flags
  bool is_bounded = false;         // its ratio, by the class of the model's memory
  std::vector<std::string> flags;  // behind those that every workload decides
  bool small_context = false;
  bool is_kvkeep = false;
  std::string program;  // of a peer
  std::string url;      // of a running server: nothing is started
};

// kvkeep, its variants, then the peer.
std::vector<Contestant> contestants(const BenchOptions& options);

// kvkeep's disk tier, below the server's own directory.
std::string disk_directory(const std::string& directory);

// kvkeep's disk tier lies in disk_directory(directory); also that of a peer that is a kvkeep and names none, which
// would else know what its last run left.
ServerCommand command_of(const Contestant& contestant, const Workload& workload, const BenchOptions& options,
                         const std::string& directory);

// The same for measure_parity().
ServerCommand parity_command_of(const Contestant& contestant, const ParitySetting& setting, const BenchOptions& options,
                                const std::string& directory);

// Name and flags, temporary paths and the workload's own context left out; variables of the environment that it is
// started without; `version` is asked of the program, or of the server that runs, unless interrupted.
ServerInfo info_of(const Contestant& contestant, const BenchOptions& options, Interrupt& interrupt);

// A program must exist; a running server must turn a chat into ids. No peer: nothing to check. Takes seconds at most
// from a server that does not answer. kNotFound: no such program. kInvalid, kIo, kUnsupported: the URL, or whoever
// answers there. kAborted: interrupted. The message begins with the flag.
Status check_peer(const BenchOptions& options, Interrupt& interrupt);

}  // namespace kvkeep::bench
