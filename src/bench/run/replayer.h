#pragma once

// Plays recorded sessions against a server that somebody else runs or that a ServerProcess runs, and fills figures.
//
// What a reply says of itself is what is reported (CountedBy::kReply): cached and prefilled tokens are the server's own
// claims. The ideal is not: it is counted over what was sent (ideal.h), as if the server had been empty before the
// first session.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/figures.h"
#include "bench/ideal.h"
#include "bench/run/replay_run.h"

namespace kvkeep::bench {

struct ReplayOptions {
  std::string server_name;  // for the report
  ReplayRunOptions run;
  // How the server's process ended ("was killed by signal 9"), where that is known.
  std::function<std::string()> death = [] { return std::string(); };
};

// Sessions one behind the other. One thread.
class Replayer {
 public:
  // kInvalid: not a URL. kIo: nobody answers there.
  static Result<std::unique_ptr<Replayer>> make(ReplayOptions options, Interrupt& interrupt);

  // Failed requests, a server that died and what else went wrong are problems in the figures.
  RunFigures play(const Session& session);
  // Nothing more can be played: the server is gone, or the replay was interrupted.
  bool is_over() const { return gone_ || interrupt_.raised(); }

  // As the server told at the start.
  const std::string& model_name() const { return model_name_; }
  const std::string& server_version() const { return server_version_; }

 private:
  Replayer(ReplayOptions options, std::unique_ptr<ReplayClient> client, Interrupt& interrupt);
  void fill_ideals(const std::vector<Exchange>& exchanges, RunFigures& figures);
  std::uint64_t ideal_of(const Exchange& exchange);
  void take_reply(const Exchange& exchange);
  std::vector<TokenId> tokens_of(std::string_view text);
  void add_problems(const Session& session, const ReplayRun& run, RunFigures& figures);

  ReplayOptions options_;
  std::unique_ptr<ReplayClient> client_;
  Interrupt& interrupt_;
  std::string model_name_;
  std::string server_version_;
  bool gone_ = false;

  IdealCounter ideal_;        // in the server's tokens
  IdealCounter rough_ideal_;  // in pseudo-tokens: taken from the first time that the server refuses to tokenize
  std::string no_tokens_;     // why it did; empty: it did not
  bool said_no_tokens_ = false;
};

}  // namespace kvkeep::bench
