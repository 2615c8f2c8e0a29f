#pragma once

// Plays recorded sessions against a running server, or one that a ServerProcess runs, and fills figures.
//
// The figures are those of the replies (CountedBy::kReply): cached and prefilled tokens are the server's own claims. If
// the engine is counted, their sum must be its count. The ideal is no claim: it is counted from the requests
// (replay_ideal.h), as if the server had been empty before the first session.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/report/figures.h"
#include "bench/run/replay_ideal.h"
#include "bench/run/replay_run.h"

namespace kvkeep::bench {

struct ReplayOptions {
  std::string server_name;  // for the report
  ReplayRunOptions run;
  // How the server's process ended ("was killed by signal 9"), if that is known.
  std::function<std::string()> death = [] { return std::string(); };
  // Returns the ids that libllama was given so far (ServerProcess::decoded_ids()); none if they are not counted.
  std::function<std::uint64_t()> decoded_ids;
  // Returns the CPU time of the server's process so far (ServerProcess::served_cpu_seconds()); none if unknown.
  std::function<std::optional<double>()> cpu_seconds = [] { return std::optional<double>(); };
};

// Plays sessions one after the other. One thread.
class Replayer {
 public:
  // kInvalid if this is no URL, kIo if no server answers there.
  static Result<std::unique_ptr<Replayer>> make(ReplayOptions options, Interrupt& interrupt);

  // Failed requests, a server that died and other failures are problems in the figures.
  RunFigures play(const Session& session);
  // Returns true if nothing more can be played: the server is gone, or the replay was interrupted.
  bool is_over() const { return gone_ || interrupt_.raised(); }
  // Returns true if the server died, or its replies contradict the count of its engine.
  bool found_wrong() const { return gone_ || contradicted_; }

  // As the server reported at the start; "" if it did not.
  const std::string& model_name() const { return model_name_; }
  const std::string& server_version() const { return server_version_; }
  const std::string& server_field() const { return server_field_; }  // from the headers of its replies

 private:
  Replayer(ReplayOptions options, std::unique_ptr<ServerClient> client, Interrupt& interrupt);
  void add_problems(const Session& session, const ReplayRun& run, RunFigures& figures);
  void add_ideals(const Session& session, const std::vector<Exchange>& exchanges, RunFigures& figures);

  ReplayOptions options_;
  std::unique_ptr<ServerClient> client_;
  Interrupt& interrupt_;
  std::string model_name_;
  std::string server_version_;
  std::string server_field_;
  bool gone_ = false;
  bool contradicted_ = false;
  std::uint64_t decoded_ids_ = 0;  // at the end of the previous session
  ReplayIdeal ideal_;
  bool said_no_tokens_ = false;
};

}  // namespace kvkeep::bench
