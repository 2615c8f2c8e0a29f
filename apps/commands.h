#pragma once

// The commands of the program, one file each (serve_command.cc...). Errors are one line that says what to change.

#include <string>

#include "base/result.h"
#include "bench_flags.h"
#include "cache_flags.h"
#include "doctor.h"
#include "serve_options.h"
#include "share_command_flags.h"
#include "top_flags.h"
#include "warm.h"

namespace kvkeep::cli {

// `kvkeep serve`: connects the rooms and runs until SIGINT or SIGTERM. Returns after an orderly shutdown.
Status run_serve(const ServeOptions& options);

// `kvkeep bench`: plays workloads, then prints the results and writes them to files.
// Returns the exit status: 0; 1 if a result is wrong; 3 if a goal could not be judged on this machine; 128 + the signal
// that interrupted the run, after all processes and temporary directories are gone. Errors: a workload that cannot be
// read or parsed, a server that does not start, a file that cannot be written.
Result<int> run_bench(const BenchCommandOptions& options);

// `kvkeep replay`: reads recordings, plays them, then prints the results and writes them to files.
// Returns the exit status: 0, or 128 + the signal that interrupted it. The report names requests that failed; these are
// no error. Errors: a file that cannot be read or parsed, no server, nothing played.
Result<int> run_replay(const ReplayCommandOptions& options);

// Returns the text of a recording; "-" is standard input. At most 1 GiB.
Result<std::string> read_recording(const std::string& file);

// `kvkeep warm`: sends a recorded request to a running server's /cache/warm, and prints how much was prefilled.
// Returns the exit status 0. Errors: the file cannot be read, has no such request, or the server refuses.
Result<int> run_warm(const WarmOptions& options);

// `kvkeep demo`: plays two conversations with and without the cache, and prints what was prefilled.
// Returns the exit status: 0, or 128 + the signal that interrupted it, after the server and its directory are gone.
// Errors: a model that cannot be read, a server that does not start, a turn that was not answered.
Result<int> run_demo(const DemoOptions& options);

// `kvkeep top`: shows a running server until a key quits, or once. Errors: the file of keys, no such terminal; with
// --once also a server that does not answer, which otherwise is shown and waited for.
Status run_top(const TopCommandOptions& options);

// `kvkeep cache`: reads the directory, hands it to the room inspect, and prints the result.
// Returns the exit status: 0, or 1 if verify found damage. Errors: the directory cannot be read, or a prefix or model
// that was named is not there.
Result<int> run_cache(const CacheCommandOptions& options);

// `kvkeep doctor`: looks at the cache directory, a server's flags and recordings, and prints what it found.
// Returns the exit status: 0, or 1 if something is wrong. Errors: a file or the directory cannot be read.
Result<int> run_doctor(const DoctorOptions& options);

// `kvkeep share`: lists what an engine holds, or carries state between it and a directory, then prints what became of
// it. Returns the exit status: 0, or 1 if something damaged was skipped, or it ended early. Errors: the directory
// cannot be read or changed, the engine does not answer or refuses, nothing fits the model and device.
Result<int> run_share(const ShareCommandOptions& options);

// ---- the commands of `kvkeep cache` that change a directory, or carry prefixes from one to another (cache_change.cc);
// all return the exit status ----

// Returns 1 if something that was to be removed is still there.
Result<int> run_cache_collect(const CacheCommandOptions& options, const std::string& root);
// Asks before it removes, if standard input is a terminal.
Result<int> run_cache_remove(const CacheCommandOptions& options, const std::string& root);

// Runs pin and unpin.
Result<int> run_cache_pins(const CacheCommandOptions& options, const std::string& root);

Result<int> run_cache_export(const CacheCommandOptions& options, const std::string& root);
Result<int> run_cache_import(const CacheCommandOptions& options, const std::string& root);

}  // namespace kvkeep::cli
