#include "bench/run/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "bench/run/contestant.h"
#include "bench/run/load_scenarios.h"
#include "bench/run/memory_state.h"
#include "bench/run/server_client.h"
#include "bench/run/server_process.h"
#include "bench/sessions/json_fields.h"
#include "os/paths.h"

namespace kvkeep::bench {
namespace {

using Progress = std::function<void(std::size_t done, std::size_t of)>;

// A server under load, and its figures so far.
struct LoadedContestant {
  Contestant contestant;
  std::vector<std::string> more_flags;
  LoadSide side;
  bool is_counted = false;
};

std::vector<LoadedContestant> players_of(const LoadScenario& scenario, const BenchOptions& bench) {
  std::vector<LoadedContestant> players;
  for (const Contestant& contestant : contestants(bench)) {
    if (!contestant.variant.empty() || !contestant.url.empty()) continue;
    if (!contestant.is_kvkeep && !scenario.own_flags.empty()) continue;
    const bool is_peer = !contestant.is_kvkeep;
    const auto add = [&](std::vector<std::string> flags, const std::string& name) {
      players.push_back(
          {.contestant = contestant, .more_flags = std::move(flags), .side = {name, {}, is_peer}, .is_counted = false});
    };
    add(scenario.own_flags, contestant.name);
    const std::string other = is_peer && !scenario.other_layout.empty() ? "-kvu" : scenario.other_layout;
    if (!other.empty()) add({other}, contestant.name + " " + other);
  }
  return players;
}

std::string figure_name(const LoadFigure& figure, const std::string& who) {
  return fmt::format("{}: {}", figure.name, who);
}

std::vector<const LoadSide*> peers_of(const std::vector<LoadSide>& sides) {
  std::vector<const LoadSide*> peers;
  for (std::size_t side = 1; side < sides.size(); ++side) {
    if (sides[side].is_peer) peers.push_back(&sides[side]);
  }
  return peers;
}

// Of the peers' figures of a round, kvkeep is compared with the best.
double best_of(const std::vector<const LoadSide*>& peers, std::size_t round, std::size_t at) {
  const LoadFigure& first = peers.front()->rounds[round][at];
  double best = first.value;
  for (const LoadSide* peer : peers) {
    const double value = peer->rounds[round][at].value;
    best = first.more_is_better ? std::max(best, value) : std::min(best, value);
  }
  return best;
}

std::vector<double> values_of(const LoadSide& side, std::size_t at) {
  std::vector<double> values;
  for (const auto& round : side.rounds) {
    if (!round.empty()) values.push_back(round[at].value);
  }
  return values;
}

// Returns the first round of any side that did not fail: all have the same names.
const std::vector<LoadFigure>* any_round(const std::vector<LoadSide>& sides) {
  for (const LoadSide& side : sides) {
    for (const auto& round : side.rounds) {
      if (!round.empty()) return &round;
    }
  }
  return nullptr;
}

std::vector<double> ratios_of(const std::vector<LoadSide>& sides, std::size_t at) {
  std::vector<double> ratios;
  const std::vector<const LoadSide*> peers = peers_of(sides);
  for (std::size_t round = 0; !peers.empty() && round < sides.front().rounds.size(); ++round) {
    const bool failed = std::ranges::any_of(peers, [&](const LoadSide* peer) { return peer->rounds[round].empty(); });
    const auto& own = sides.front().rounds[round];
    if (!failed && !own.empty()) ratios.push_back(own[at].value / best_of(peers, round, at));
  }
  return ratios;
}

class LoadBench {
 public:
  LoadBench(const BenchOptions& bench, const LoadOptions& options, const Progress& progress, Interrupt& interrupt)
      : bench_(bench),
        options_(options),
        progress_(progress),
        interrupt_(interrupt),
        sizes_(options.quick ? quick_load_sizes() : LoadSizes()) {
    for (const LoadScenario& scenario : load_scenarios()) {
      const bool is_chosen =
          options.scenarios.empty() || std::ranges::find(options.scenarios, scenario.name) != options.scenarios.end();
      if (is_chosen) chosen_.push_back(&scenario);
    }
  }

  Result<LoadFigures> measure() {
    for (const LoadScenario* scenario : chosen_) steps_ += options_.rounds * players_of(*scenario, bench_).size();
    for (const LoadScenario* scenario : chosen_) TRY(measure(*scenario));
    progress_(steps_, steps_);
    return std::move(figures_);
  }

 private:
  Status measure(const LoadScenario& scenario) {
    std::vector<LoadedContestant> players = players_of(scenario, bench_);
    for (std::size_t round = 0; round < options_.rounds; ++round) {
      for (std::size_t turn = 0; turn < players.size(); ++turn) {
        // A drift of the machine favours nobody.
        LoadedContestant& player = players[round % 2 == 0 ? turn : players.size() - 1 - turn];
        progress_(done_++, steps_);
        TRY(play(scenario, player, round));
      }
    }
    std::vector<LoadSide> sides;
    for (LoadedContestant& player : players) {
      const bool is_measured = any_round({player.side}) != nullptr;
      if (is_measured || player.contestant.is_kvkeep) sides.push_back(std::move(player.side));
    }
    std::ranges::move(load_parts(sides, !options_.quick), std::back_inserter(figures_.parts));
    return {};
  }

  // A server that cannot be measured loses only its own figures.
  Status play(const LoadScenario& scenario, LoadedContestant& player, std::size_t round) {
    Result<LoadRun> run = run_once(scenario, player, round);
    TRY(interrupt_.check());
    if (!run) {
      figures_.problems.push_back(
          fmt::format("load, {}: {}: {}", scenario.name, player.side.name, run.error().message));
      player.side.rounds.emplace_back();
      return {};
    }
    player.side.rounds.push_back(std::move(run->figures));
    if (run->counts && !std::exchange(player.is_counted, true)) figures_.counts.push_back(std::move(*run->counts));
    return {};
  }

  Result<LoadRun> run_once(const LoadScenario& scenario, const LoadedContestant& player, std::size_t round) {
    TRY_ASSIGN(const os::TemporaryDirectory directory, os::TemporaryDirectory::make("kvkeep-bench-"));
    std::vector<std::string> flags = scenario.flags;
    std::ranges::copy(player.more_flags, std::back_inserter(flags));
    ServerProcess process(load_command_of(player.contestant, flags, bench_, directory.path()), directory.path(),
                          interrupt_);
    TRY(process.start());
    TRY_ASSIGN(const auto client,
               ServerClient::make({.base_url = process.base_url(), .keeps_connection = true}, interrupt_));
    // The first request of a process pays for memory that is used for the first time.
    const Exchange warm_up = client->chat(Json::array({chat_message("user", scenario.name + " is warm")}), 8);
    if (!warm_up.answered()) return unsupported(warm_up.failure());
    LoadedServer server{process, *client, sizes_, interrupt_, fmt::format("{} {}", scenario.name, round)};
    TRY_ASSIGN(LoadRun run, scenario.run(server));
    if (run.counts) {
      run.counts->server = player.contestant.name;
      if (player.contestant.is_kvkeep) run.counts->bound = ratio_bound(memory_state_of(process.log()), Workload{});
    }
    if (const std::string death = process.death(); !death.empty()) return io_error("the server " + death);
    TRY(process.stop());
    return run;
  }

  const BenchOptions& bench_;
  const LoadOptions& options_;
  const Progress& progress_;
  Interrupt& interrupt_;
  const LoadSizes sizes_;
  std::vector<const LoadScenario*> chosen_;
  std::size_t steps_ = 0;
  std::size_t done_ = 0;
  LoadFigures figures_;
};

}  // namespace

std::vector<std::string> load_scenario_names() {
  std::vector<std::string> names;
  for (const LoadScenario& scenario : load_scenarios()) names.push_back(scenario.name);
  return names;
}

std::vector<PartFigures> load_parts(const std::vector<LoadSide>& sides, bool has_time_goals) {
  std::vector<PartFigures> parts;
  const std::vector<LoadFigure>* names = any_round(sides);
  for (std::size_t at = 0; names != nullptr && at < names->size(); ++at) {
    const LoadFigure& figure = (*names)[at];
    const bool has_goals = has_time_goals || figure.is_count;
    if (std::vector<double> ratios = ratios_of(sides, at); !ratios.empty() && !figure.is_count) {
      const std::vector<const LoadSide*> peers = peers_of(sides);
      const std::string of = peers.size() > 1 ? "best peer" : peers.front()->name;
      parts.push_back(summarize(figure_name(figure, sides[0].name + " / " + of), "ratio", std::move(ratios),
                                has_goals ? figure.ratio_goal : std::nullopt));
    }
    for (std::size_t side = 0; side < sides.size(); ++side) {
      std::vector<double> values = values_of(sides[side], at);
      if (values.empty()) continue;
      const bool is_judged = side == 0 && has_goals;
      parts.push_back(summarize(figure_name(figure, sides[side].name), figure.unit, std::move(values),
                                is_judged ? figure.goal : std::nullopt));
      parts.back().is_count = figure.is_count;
    }
  }
  return parts;
}

Result<LoadFigures> measure_load(const BenchOptions& bench, const LoadOptions& options, const Progress& progress,
                                 Interrupt& interrupt) {
  return LoadBench(bench, options, progress, interrupt).measure();
}

}  // namespace kvkeep::bench
