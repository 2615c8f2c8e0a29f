#pragma once

// A server under measurement: started with the counting shim, awaited, killed and started again, stopped.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "bench/run/interrupt.h"
#include "os/child_process.h"
#include "os/network.h"

namespace kvkeep::bench {

struct ServerCommand {
  std::string name = "kvkeep";         // for messages and file names
  std::string program;                 // empty: this program
  std::vector<std::string> arguments;  // --host 127.0.0.1 --port N are added
  int start_limit_ms = 120'000;
  std::vector<std::pair<std::string, std::string>> environment = {};  // added to this program's
};

// Returns the variables of this environment that would change what a server does without a trace in its command line
// (LLAMA_ARG_CTX_SIZE), sorted; servers started here do not get them.
std::vector<std::string> cleared_variables();
// Returns a note to put after a command line: "; without LLAMA_ARG_CTX_SIZE of the environment", or "".
std::string note_on_environment();

// One thread uses it; the interrupt may come from any. The destructor kills the process and all that it started (it may
// be a wrapper script); the kernel kills the process when this program dies.
class ServerProcess {
 public:
  // `directory` must exist, outlive this, and be this server's own: its log, the shim and the count go there.
  ServerProcess(ServerCommand command, std::string directory, Interrupt& interrupt);
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;
  ~ServerProcess();

  // Returns when GET /health is answered 200. kNotFound if there is no such program; kIo if it ended or was not ready
  // in time, with the end of its log in the message; kAborted if interrupted.
  Status start();
  // Sends SIGKILL, then calls start() on the same port, once it is free. Errors as of start(); kIo if it stays busy.
  Status restart_after_kill();
  // Sends SIGTERM. kIo if the process did not end within the limit (it is killed then), or ended other than with status
  // 0 or by that very signal, as a wrapper script does.
  Status stop(int limit_ms = 30'000);

  const std::string& name() const { return command_.name; }
  const std::string& base_url() const { return base_url_; }
  // Returns the ids given to libllama since the server was ready for the first time, over restarts. The ids of warm-ups
  // are left out: those decoded before the server was ready; at a restart at most as many as at the first start.
  std::uint64_t decoded_ids() const;
  // Returns the pieces of pictures and sounds that libmtmd encoded for it, over restarts.
  std::uint64_t encoded_pieces() const;
  // Returns false if its ids cannot be counted (count_shim.h). Meaningful once it has decoded something.
  bool is_counted() const;
  // Call the functions below only after start() returned.
  // Returns nullopt while it runs.
  std::optional<os::ChildEnd> ended() const;
  // Returns when it has ended or after `limit_ms`; also the way to leave it running for a while.
  void wait(int limit_ms) const;
  // Returns "was killed by signal 9" or "ended with status 1"; "" while it runs.
  std::string death() const;
  // Returns the CPU time of the running process.
  Result<double> cpu_seconds() const;
  // The same over restarts, without the time before the server was ready; at a restart at most as much as at the first
  // start is left out. kIo if it has ended, or had before a restart.
  Result<double> served_cpu_seconds() const;
  int id() const;
  std::string log() const;
  // Returns the last lines of the log as one line, for messages.
  std::string log_tail() const;

 private:
  Status launch();
  Status wait_until_ready();
  void settle();
  // The shim's counts: ids, calls of libllama that took them, and pieces that libmtmd encoded.
  struct Counted {
    std::uint64_t ids = 0;
    std::uint64_t calls = 0;
    std::uint64_t encoded = 0;
  };
  Counted counted() const;
  Status wait_until_port_is_free(int limit_ms) const;
  std::shared_ptr<os::ChildProcess> child() const;
  std::string path(const char* suffix) const { return directory_ + "/" + command_.name + suffix; }

  const ServerCommand command_;
  const std::string directory_;
  Interrupt& interrupt_;
  std::string base_url_;
  int port_ = 0;
  bool has_shim_ = false;
  std::uint64_t settled_ids_ = 0;  // of earlier processes
  std::uint64_t settled_encoded_ = 0;
  std::uint64_t base_encoded_ = 0;
  std::uint64_t base_ids_ = 0;  // of this process, left out
  std::optional<std::uint64_t> warm_up_ids_;
  bool was_counted_ = false;                 // for an earlier process
  std::optional<double> settled_cpu_s_ = 0;  // of earlier processes; none: one of them ended by itself
  double base_cpu_s_ = 0;                    // of this process, left out
  std::optional<double> warm_up_cpu_s_;
  mutable Mutex mutex_;
  std::shared_ptr<os::ChildProcess> child_ GUARDED_BY(mutex_);
  const Interrupt::Guard guard_;  // last, because it may be called as soon as it is made
};

}  // namespace kvkeep::bench
