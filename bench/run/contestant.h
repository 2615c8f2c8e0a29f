#pragma once

// The servers that take part in a bench, and the command line of each.

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "bench/report/figures.h"
#include "bench/run/bench.h"
#include "bench/run/interrupt.h"
#include "bench/run/parity.h"
#include "bench/run/server_process.h"
#include "os/paths.h"

namespace kvkeep::bench {

struct Contestant {
  std::string name;                // of a ServerInfo
  std::string variant;             // of kvkeep; empty: its usual flags
  bool is_bounded = false;         // its ratio has a bound, by the class of the model's memory
  std::vector<std::string> flags;  // after those that every workload sets
  bool small_context = false;
  bool is_kvkeep = false;
  std::string program;  // for a peer
  std::string url;      // of a running server: none is started
};

// kvkeep, its variants, then the peer.
std::vector<Contestant> contestants(const BenchOptions& options);

// kvkeep's disk tier, below the server's own directory.
std::string disk_directory(const std::string& directory);

// kvkeep's disk tier lies in disk_directory(directory); so does that of a peer that is a kvkeep and names none, which
// would otherwise have state from its last run.
ServerCommand command_of(const Contestant& contestant, const Workload& workload, const BenchOptions& options,
                         const std::string& directory);

// The same with `flags` after the contestant's own, and the threads that each server takes by default.
ServerCommand load_command_of(const Contestant& contestant, const std::vector<std::string>& flags,
                              const BenchOptions& options, const std::string& directory);
// The same for measure_parity().
ServerCommand parity_command_of(const Contestant& contestant, const ParitySetting& setting, const BenchOptions& options,
                                const std::string& directory);

// Name and flags, without temporary paths and the workload's own context; variables of the environment that it is
// started without; the program, or the running server, is asked for its `version`, unless interrupted.
ServerInfo info_of(const Contestant& contestant, const BenchOptions& options, Interrupt& interrupt);

// Checks that a program exists, or that a running server turns a chat into ids; without a peer there is nothing to
// check. Takes seconds at most for a server that does not answer. kNotFound if there is no such program; kInvalid, kIo,
// kUnsupported if the URL, or the server there, is wrong; kAborted if interrupted. The message begins with the flag.
Status check_peer(const BenchOptions& options, Interrupt& interrupt);

// A kvkeep that is measured by itself, and runs as long as an object lives.
class Served {
 public:
  // With its usual flags, then `flags`. Its directory is its own, and goes with it. Errors of ServerProcess::start().
  static Result<Served> start(const BenchOptions& bench, const Workload& workload, std::vector<std::string> flags,
                              Interrupt& interrupt) {
    TRY_ASSIGN(os::TemporaryDirectory directory, os::TemporaryDirectory::make("kvkeep-bench-"));
    Contestant ours = contestants(bench).front();
    std::ranges::move(flags, std::back_inserter(ours.flags));
    Served served{std::make_unique<os::TemporaryDirectory>(std::move(directory)), nullptr};
    const std::string& path = served.directory->path();
    served.process = std::make_unique<ServerProcess>(command_of(ours, workload, bench, path), path, interrupt);
    TRY(served.process->start());
    return served;
  }

  std::unique_ptr<os::TemporaryDirectory> directory;
  std::unique_ptr<ServerProcess> process;
};

}  // namespace kvkeep::bench
