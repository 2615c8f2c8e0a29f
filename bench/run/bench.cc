#include "bench/run/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "base/assert.h"
#include "bench/report/summary.h"
#include "bench/run/contestant.h"
#include "bench/run/memory_state.h"
#include "bench/run/parity.h"
#include "bench/run/player.h"
#include "bench/run/surroundings.h"
#include "bench/run/written.h"
#include "os/file_system.h"
#include "os/paths.h"

namespace kvkeep::bench {
namespace {

constexpr Goal kOwnCostGoal{Goal::Kind::kAtMost, 0.01};
constexpr Goal kEncodedOnce{.kind = Goal::Kind::kWithin, .value = 1, .most = 1};

class Bench {
 public:
  Bench(const BenchOptions& options, const BenchProgress& progress, Interrupt& interrupt)
      : options_(options), progress_(progress), interrupt_(interrupt), contestants_(contestants(options)) {}

  Result<Report> run() {
    report_.model = options_.model.substr(options_.model.rfind('/') + 1);
    for (const Contestant& contestant : contestants_) {
      if (contestant.variant.empty()) report_.servers.push_back(info_of(contestant, options_, interrupt_));
    }
    for (const Workload& workload : options_.workloads) {
      TRY(play_all(workload));
      // Servers take turns, so that warming up or throttling of the machine affects each.
      std::ranges::reverse(contestants_);
    }
    add_own_cost();
    return std::move(report_);
  }

 private:
  Status play_all(const Workload& workload) {
    for (const Contestant& contestant : contestants_) {
      TRY_ASSIGN(RunFigures figures, play_or_tell(workload, contestant));
      progress_.played(figures);
      report_.runs.push_back(std::move(figures));
    }
    return {};
  }

  // A server that cannot be played loses only its own figures.
  Result<RunFigures> play_or_tell(const Workload& workload, const Contestant& contestant) {
    RunFigures failed;
    failed.workload = workload.name;
    failed.title = workload.title;
    failed.server = contestant.name;
    failed.variant = contestant.variant;
    if (contestant.is_bounded) failed.bound = kRatioBound;  // the class of its model's memory is unknown
    const auto show = [&](std::size_t done) { progress_.playing(failed, done, workload.requests()); };
    show(0);
    const std::string who = server_and_variant(failed);
    if (given_up_.contains(who)) {
      failed.problems = {"was not tried again"};
      return failed;
    }
    Result<RunFigures> figures = play_one(workload, contestant, show);
    TRY(interrupt_.check());
    // kvkeep's first run comes first: if it does not start, ending at once loses nothing.
    if (figures || report_.runs.empty()) return figures;
    given_up_.insert(who);  // its next start might take the whole time limit, too
    failed.problems = {"could not be played: " + figures.error().message};
    return failed;
  }

  Result<RunFigures> play_one(const Workload& workload, const Contestant& contestant,
                              const std::function<void(std::size_t)>& show) {
    PlayOptions play_options;
    play_options.text_is_exact = options_.model_is_generated && contestant.url.empty();  // else the model is unknown
    play_options.must_be_counted = contestant.is_kvkeep;
    play_options.may_refuse = !contestant.is_kvkeep;
    play_options.on_request = [&](const RunFigures& so_far) { show(so_far.requests.size()); };
    TRY_ASSIGN(Played played, contestant.url.empty() ? play_started(workload, contestant, play_options)
                                                     : play_running(workload, contestant, play_options));
    played.figures.variant = contestant.variant;
    std::ranges::copy(played.own_costs, std::back_inserter(own_costs_));
    if (contestant.url.empty() && played.figures.counted_by == CountedBy::kReply) note_unseen_engine(contestant.name);
    return std::move(played.figures);
  }

  void note_unseen_engine(const std::string& name) {
    const std::string note = "; its engine was not seen: prefilled tokens are what its replies say";
    const auto server = std::ranges::find(report_.servers, name, &ServerInfo::name);
    if (!server->flags.ends_with(note)) server->flags += note;
  }

  // Once per report. After a kill, state that was being written is written again.
  bool measures_writes(const Workload& workload, const Contestant& contestant, const RunFigures& figures) const {
    const bool all_are_written = std::ranges::all_of(
        figures.requests, [](const RequestFigures& request) { return request.prompt_tokens >= kShortestWritten; });
    return contestant.is_kvkeep && contestant.is_bounded && workload.kills() == 0 && !has_written_ && all_are_written &&
           !figures.requests.empty();
  }

  // A model may take a picture in several pieces; the first picture, of which nothing can be known, tells how many.
  void add_encoder_calls(const Workload& workload, const Contestant& contestant, Played& played) {
    if (played.pieces_per_picture == 0) {
      played.figures.problems.emplace_back("no call of the encoder was seen: nothing says how often it ran");
      return;
    }
    const auto never_seen = static_cast<double>(played.pieces_per_picture * workload.pictures());
    RunFigures named;
    named.server = contestant.name;
    named.variant = contestant.variant;
    report_.parts.push_back(summarize(
        fmt::format("{} on {}: encoder calls / pictures never seen", workload.name, server_and_variant(named)), "ratio",
        {static_cast<double>(played.encoded_pieces) / never_seen},
        contestant.is_bounded ? std::optional(kEncodedOnce) : std::nullopt));
  }

  // The cost of measuring. Requests to the tiny model are over so soon that no goal would be fair.
  void add_own_cost() {
    if (own_costs_.empty()) return;
    const std::optional<Goal> goal = options_.quick ? std::nullopt : std::optional(kOwnCostGoal);
    report_.parts.push_back(summarize("CPU time of the bench itself while a request is under way / time of the request",
                                      "ratio", own_costs_, goal));
  }

  Result<Played> play_running(const Workload& workload, const Contestant& contestant, const PlayOptions& play_options) {
    const PlayedServer server{.name = contestant.name, .base_url = contestant.url};
    return play(workload, server, play_options, interrupt_);
  }

  Result<Played> play_started(const Workload& workload, const Contestant& contestant, const PlayOptions& play_options) {
    TRY_ASSIGN(const os::TemporaryDirectory directory, os::TemporaryDirectory::make("kvkeep-bench-"));
    ServerProcess process(command_of(contestant, workload, options_, directory.path()), directory.path(), interrupt_);
    TRY(process.start());
    const PlayedServer server{.name = contestant.name, .process = &process, .base_url = {}};
    const auto bytes_before = bytes_passed(process);
    TRY_ASSIGN(Played played, play(workload, server, play_options, interrupt_));
    if (contestant.is_bounded) played.figures.bound = ratio_bound(memory_state_of(process.log()), workload);
    if (workload.pictures() > 0 && played.figures.refused.empty()) add_encoder_calls(workload, contestant, played);
    if (!process.ended() && measures_writes(workload, contestant, played.figures)) {
      Result<std::vector<PartFigures>> written =
          measure_written(process, {.directory = disk_directory(directory.path()),
                                    .title = workload.title,
                                    .tokens = played.decoded_prefixes,
                                    .requests = played.figures.requests.size(),
                                    .is_exact = play_options.text_is_exact,
                                    .bytes_before = bytes_before,
                                    .has_goals = options_.kvkeep_flags.empty()});
      if (written) std::ranges::move(*written, std::back_inserter(report_.parts));
      has_written_ = has_written_ || written.ok();
      if (!written) played.figures.problems.push_back(written.error().message);
    }
    if (!process.ended()) {
      const Status stopped = process.stop();
      TRY(interrupt_.check());
      if (!stopped) played.figures.problems.push_back(stopped.error().message);
    }
    return played;
  }

  const BenchOptions& options_;
  const BenchProgress& progress_;
  Interrupt& interrupt_;
  std::vector<Contestant> contestants_;
  std::set<std::string> given_up_;  // server_and_variant()
  std::vector<double> own_costs_;   // of all requests
  bool has_written_ = false;        // the bytes of new state were measured
  Report report_ = start_report();
};

}  // namespace

namespace {

Result<std::vector<PartFigures>> run_parity_in(const ParitySetting& setting, const BenchOptions& options,
                                               std::size_t pairs,
                                               const std::function<void(std::size_t done, std::size_t of)>& progress,
                                               Interrupt& interrupt) {
  TRY_ASSIGN(const os::TemporaryDirectory directory, os::TemporaryDirectory::make("kvkeep-bench-"));
  std::vector<std::unique_ptr<ServerProcess>> servers;
  for (const Contestant& contestant : contestants(options)) {
    if (!contestant.variant.empty()) continue;
    const std::string own = directory.path() + "/" + std::to_string(servers.size());
    TRY(os::real_file_system().make_directories(own));
    servers.push_back(
        std::make_unique<ServerProcess>(parity_command_of(contestant, setting, options, own), own, interrupt));
  }
  KVKEEP_ASSERT(servers.size() == 2, "parity is measured with a peer that is started");
  return measure_parity(*servers[0], *servers[1], setting.name, {.pairs = pairs}, progress, interrupt);
}

}  // namespace

Result<std::vector<PartFigures>> run_parity(const BenchOptions& options, std::size_t pairs,
                                            const std::function<void(std::size_t done, std::size_t of)>& progress,
                                            Interrupt& interrupt) {
  const std::vector<ParitySetting> settings = parity_settings();
  std::vector<PartFigures> all;
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const auto show = [&](std::size_t done, std::size_t of) { progress(i * of + done, settings.size() * of); };
    TRY_ASSIGN(std::vector<PartFigures> figures, run_parity_in(settings[i], options, pairs, show, interrupt));
    std::ranges::move(figures, std::back_inserter(all));
  }
  return all;
}

Result<Report> run_bench(const BenchOptions& options, const BenchProgress& progress, Interrupt& interrupt) {
  return Bench(options, progress, interrupt).run();
}

}  // namespace kvkeep::bench
