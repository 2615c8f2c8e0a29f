#pragma once

// The loads of `kvkeep bench --load`: what is asked of one server, and the figures of one run. docs/bench.md describes
// them. Each server has just been started with the flags of the scenario, and knows no prompt.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "bench/report/figures.h"
#include "bench/run/interrupt.h"
#include "bench/run/server_client.h"
#include "bench/run/server_process.h"

namespace kvkeep::bench {

struct LoadSizes {
  std::uint32_t giant_tokens = 16'384;  // of a cold prompt next to running streams
  std::uint32_t ahead_tokens = 9'000;   // of a cold prompt that a short request comes after
  std::uint32_t stream_tokens = 128;    // of each reply that is decoded together
  std::size_t clients = 256;
  std::size_t held_clients = 1'000;  // that come at once, more than the queue of the scenario "full" has room for
  int clients_ms = 20'000;
};
LoadSizes quick_load_sizes();

// Where a scenario runs.
struct LoadedServer {
  ServerProcess& process;
  ServerClient& client;
  const LoadSizes& sizes;
  Interrupt& interrupt;
  std::string label;  // differs from run to run, so that no prompt is known
};

// One figure of one run.
struct LoadFigure {
  std::string name;
  std::string unit;
  double value = 0;
  std::optional<Goal> goal = {};        // of kvkeep's figure
  std::optional<Goal> ratio_goal = {};  // of kvkeep's figure / the best peer's
  bool more_is_better = false;          // decides which peer is the best
  bool is_count = false;                // its goal holds for tiny models, too
};

struct LoadRun {
  std::vector<LoadFigure> figures;        // the same names in each run
  std::optional<RunFigures> counts = {};  // without server, variant and bound
};

struct LoadScenario {
  std::string name;                         // on the command line
  std::vector<std::string> flags;           // of every server
  std::vector<std::string> own_flags = {};  // more of kvkeep's
  // Peers run a second time with -kvu: llama-server has two layouts, of which neither is always faster.
  bool both_layouts = false;
  Result<LoadRun> (*run)(LoadedServer& server);
};

const std::vector<LoadScenario>& load_scenarios();

// ---- for the scenarios ----

constexpr Goal at_most(double value) { return {Goal::Kind::kAtMost, value}; }
constexpr Goal at_least(double value) { return {Goal::Kind::kAtLeast, value}; }

// A conversation of one message of the user.
nlohmann::ordered_json one_message(std::string_view text);

// load_clients.cc: many clients at once.
Result<LoadRun> run_clients(LoadedServer& server);  // that ask again and again
Result<LoadRun> run_held(LoadedServer& server);     // 1,000 that ask once
Result<LoadRun> run_full(LoadedServer& server);     // more than may wait

}  // namespace kvkeep::bench
