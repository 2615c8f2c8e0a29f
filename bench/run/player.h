#pragma once

// Plays a workload against one server over HTTP and counts, at the engine, the tokens that the server computed for it.
//
// A picture's ids are known to no client. All of a workload have one size, and so as many tokens, which the first
// reply's number of prompt tokens tells; the prefixes that have one are told apart by made-up ids.
//
// For each request: prefilled = ids decoded meanwhile, without sampled ids that were fed back (the last sampled id
// never is); ideal = positions of the prompt whose id prefix was never decoded before, by the ids that the server
// itself reports (/apply-template, /tokenize). The claims of the reply must equal the counts.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/report/figures.h"
#include "bench/run/interrupt.h"
#include "bench/run/server_process.h"
#include "bench/workloads/workload.h"

namespace kvkeep::bench {

// The server to play against: a process of this bench, or a running server, which is neither counted nor killed.
struct PlayedServer {
  std::string name;
  ServerProcess* process = nullptr;  // if the bench started it
  std::string base_url;              // used if there is no process
};

struct PlayOptions {
  // The text of a reply is tokenized to the sampled ids (generated models): their number is checked, too.
  bool text_is_exact = false;
  // If true, a server whose calls of libllama are not seen is a problem; if false, the claims of its replies are used.
  bool must_be_counted = false;
  // A server that does not do what a request asks for ends the run without a problem.
  bool may_refuse = false;
  bool cache_prompt = true;  // if false, requests ask kvkeep to compute everything anew
  // Called after each request, which is the last one of the figures.
  std::function<void(const RunFigures& so_far)> on_request = [](const RunFigures&) {};
};

struct Played {
  RunFigures figures;  // without variant and bound
  // Pieces of pictures that were encoded, and those of one picture.
  std::uint64_t encoded_pieces = 0;
  std::uint64_t pieces_per_picture = 0;
  std::uint64_t decoded_prefixes = 0;  // number of different prefixes decoded: rows that a cache has to keep
  std::vector<std::string> replies;    // their text, per request
  std::vector<double> own_costs;       // per request: CPU time of this thread during the request / the request's time
};

// kAborted if interrupted. A refusal is in the figures, see PlayOptions. Every other failure is a problem in the
// figures, with its request; if the rest cannot be played, the run ends there.
Result<Played> play(const Workload& workload, const PlayedServer& server, const PlayOptions& options,
                    Interrupt& interrupt);

}  // namespace kvkeep::bench
