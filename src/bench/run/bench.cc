#include "bench/run/bench.h"

#include <algorithm>
#include <utility>

#include "bench/run/contestant.h"
#include "bench/run/player.h"
#include "bench/run/report_start.h"
#include "os/temporary_directory.h"

namespace kvkeep::bench {
namespace {

constexpr double kQuickKillWaitS = 0.5;

class Bench {
 public:
  Bench(const BenchOptions& options, const BenchProgress& progress, Interrupt& interrupt)
      : options_(options), progress_(progress), interrupt_(interrupt), contestants_(contestants(options)) {}

  Result<Report> run() {
    report_.model = options_.model.substr(options_.model.rfind('/') + 1);
    for (const Contestant& contestant : contestants_) {
      if (contestant.variant.empty()) report_.servers.push_back(info_of(contestant, options_));
    }
    for (const Workload& workload : options_.workloads) {
      TRY(play_all(workload));
      // What warms up or throttles the machine meets the servers in turn.
      std::ranges::reverse(contestants_);
    }
    return std::move(report_);
  }

 private:
  Status play_all(const Workload& workload) {
    for (const Contestant& contestant : contestants_) {
      TRY_ASSIGN(RunFigures figures, play_one(workload, contestant));
      progress_.played(figures);
      report_.runs.push_back(std::move(figures));
    }
    return {};
  }

  Result<RunFigures> play_one(const Workload& workload, const Contestant& contestant) {
    RunFigures shown;  // for the progress line only
    shown.workload = workload.name;
    shown.server = contestant.name;
    shown.variant = contestant.variant;
    const auto show = [&](std::size_t done) { progress_.playing(shown, done, workload.requests()); };
    show(0);
    PlayOptions play_options;
    play_options.text_is_exact = options_.model_is_generated && contestant.url.empty();  // else whose model is it?
    if (options_.quick) play_options.kill_wait_s = kQuickKillWaitS;
    play_options.on_request = show;
    TRY_ASSIGN(Played played, contestant.url.empty() ? play_started(workload, contestant, play_options)
                                                     : play_running(workload, contestant, play_options));
    played.figures.variant = contestant.variant;
    played.figures.bound = contestant.bound;
    return std::move(played.figures);
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
    TRY_ASSIGN(Played played, play(workload, server, play_options, interrupt_));
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
  Report report_ = start_report();
};

}  // namespace

Result<Report> run_bench(const BenchOptions& options, const BenchProgress& progress, Interrupt& interrupt) {
  return Bench(options, progress, interrupt).run();
}

}  // namespace kvkeep::bench
