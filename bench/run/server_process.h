#pragma once

// A server under measurement: started with the counting shim, waited for, killed and started again, stopped.

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
  std::string name = "kvkeep";         // for messages, and of its files
  std::string program;                 // empty: this program
  std::vector<std::string> arguments;  // --host 127.0.0.1 --port N are added
  int start_limit_ms = 120'000;
};

// Variables of our environment that would change what a server does without a word of it in its command line
// (LLAMA_ARG_CTX_SIZE); a server that is started here does not get them. Sorted.
std::vector<std::string> cleared_variables();
// Says so behind a command line: "; without LLAMA_ARG_CTX_SIZE of the environment", or nothing.
std::string note_on_environment();

// One thread uses it; the interrupt may come from any. The process and what it started (it may be a wrapper script) are
// killed when this is destroyed; the process by the kernel when we die.
class ServerProcess {
 public:
  // `directory` exists, outlives this, and is this server's own: its log, the shim and the count go there.
  ServerProcess(ServerCommand command, std::string directory, Interrupt& interrupt);
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;
  ~ServerProcess();

  // Returns when GET /health is answered 200. kNotFound: no such program. kIo: it ended or was not ready in time; the
  // message ends with the end of its log. kAborted: interrupted.
  Status start();
  // SIGKILL, then start() on the same port, once nobody listens there. Errors as of start(); kIo: somebody still does.
  Status restart_after_kill();
  // SIGTERM. kIo: it did not end within the limit (it is killed then), or ended otherwise than with status 0 or of that
  // very signal, as a wrapper script does.
  Status stop(int limit_ms = 30'000);

  const std::string& name() const { return command_.name; }
  const std::string& base_url() const { return base_url_; }
  // Ids given to libllama since it was ready for the first time, over restarts. Warm-up is left out: what it decoded
  // before it was ready; at a restart no more of that than at the first start.
  std::uint64_t decoded_ids() const;
  // False: nothing of it can be counted (count_shim.h). Meaningful once it has decoded something.
  bool is_counted() const;
  // All below: only after start() returned.
  // None: it runs.
  std::optional<os::ChildEnd> ended() const;
  // Returns when it has ended or after `limit_ms`: also the way to let it alone for a while.
  void wait(int limit_ms) const;
  // "was killed by signal 9", "ended with status 1"; empty: it runs.
  std::string death() const;
  // CPU time of the running process.
  Result<double> cpu_seconds() const;
  // The same over restarts, without what it took to be ready; at a restart no more of that than at the first start is
  // left out. kIo: it has ended, or had before a restart.
  Result<double> served_cpu_seconds() const;
  int id() const;
  std::string log() const;
  // The last lines of the log in one, for messages.
  std::string log_tail() const;

 private:
  Status launch();
  Status wait_until_ready();
  void settle();
  // As the shim counts: ids, and calls of libllama that took them.
  struct Counted {
    std::uint64_t ids = 0;
    std::uint64_t calls = 0;
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
  std::uint64_t base_ids_ = 0;     // of this process, left out
  std::optional<std::uint64_t> warm_up_ids_;
  bool was_counted_ = false;                 // an earlier process
  std::optional<double> settled_cpu_s_ = 0;  // of earlier processes; none: one of them ended by itself
  double base_cpu_s_ = 0;                    // of this process, left out
  std::optional<double> warm_up_cpu_s_;
  mutable Mutex mutex_;
  std::shared_ptr<os::ChildProcess> child_ GUARDED_BY(mutex_);
  const Interrupt::Guard guard_;  // last: it may call as soon as it is made
};

}  // namespace kvkeep::bench
