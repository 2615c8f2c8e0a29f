#pragma once

// Plays a workload against one server over HTTP and counts, at the engine, what the server computed for it.
//
// Of each request: prefilled = ids decoded meanwhile, without sampled ids that were fed back (the last sampled id never
// is); ideal = positions of the prompt whose id prefix was never decoded before, by the server's own account of its ids
// (/apply-template, /tokenize). What the reply says of itself must equal what was counted.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/report/figures.h"
#include "bench/run/interrupt.h"
#include "bench/run/server_process.h"
#include "bench/workloads/workload.h"

namespace kvkeep::bench {

// Who is played against: a process of ours, or somebody else's server, whose ids nobody counts and whom nobody kills.
struct PlayedServer {
  std::string name;
  ServerProcess* process = nullptr;  // started
  std::string base_url;              // used if there is no process
};

struct PlayOptions {
  std::optional<double> kill_wait_s;  // replaces the waits of the file
  // The text of a reply tokenizes to the ids that were sampled (generated models): their number is checked, too.
  bool text_is_exact = false;
  // A server whose calls of libllama are not seen is a problem; else its replies' claims are taken for it.
  bool must_be_counted = false;
  std::function<void(std::size_t requests_done)> on_request = [](std::size_t) {};
};

struct Played {
  RunFigures figures;                  // without variant and bound
  std::uint64_t decoded_prefixes = 0;  // different prefixes decoded: rows that a cache has to keep
  std::vector<double> own_costs;       // per request: CPU time of this thread while it was under way / its time
};

// kAborted: interrupted. Everything else that goes wrong is a problem in the figures, naming the request; where the
// rest cannot be played, the run ends there.
Result<Played> play(const Workload& workload, const PlayedServer& server, const PlayOptions& options,
                    Interrupt& interrupt);

}  // namespace kvkeep::bench
