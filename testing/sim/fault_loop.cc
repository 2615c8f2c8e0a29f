#include "testing/sim/fault_loop.h"

#include <cstdlib>
#include <iterator>
#include <random>

namespace kvkeep::sim {
namespace {

constexpr std::size_t kExamplesKept = 5;
constexpr std::uint64_t kMostOperations = 100'000;  // a scenario that never ends has a bug
constexpr Aftermath kAftermaths[] = {Aftermath::kPowerCut, Aftermath::kKill, Aftermath::kHealThenCut};
// Enough for the operations of a process after the first end, of all kinds and of one.
constexpr std::uint64_t kOperationsAgain = 64;
constexpr std::uint64_t kAimedOperationsAgain = 12;

const char* name_of(Aftermath aftermath) {
  switch (aftermath) {
    case Aftermath::kPowerCut: return "power cut";
    case Aftermath::kKill: return "kill";
    default: return "heal, then power cut";
  }
}

std::string describe(const FaultyRun& run) {
  return std::string(run.fault.name) + " at operation " + std::to_string(run.at_operation) + ", " +
         name_of(run.aftermath);
}

bool possible(const Fault& fault, Aftermath aftermath) {
  return fault.kind != FaultKind::kCrash || aftermath != Aftermath::kHealThenCut;
}

// Each case has another disk, and always the same.
std::uint64_t disk_seed(const FaultCase& fault) {
  return fault.seed * 1'000'003 + fault.first.at_operation * 31 +
         static_cast<std::uint64_t>(fault.first.fault.kind) * 7 + static_cast<std::uint64_t>(fault.first.aftermath);
}

FaultyRun choose_second(const FaultCase& first) {
  std::mt19937_64 random(disk_seed(first) ^ 0x9e3779b97f4a7c15ULL);
  FaultyRun second;
  do {
    second.fault = kFaults[random() % std::size(kFaults)];
    second.aftermath = kAftermaths[random() % std::size(kAftermaths)];
  } while (!possible(second.fault, second.aftermath));
  const bool any = second.fault.of.contains(Operation::kSpace);
  second.at_operation = 1 + random() % (any ? kOperationsAgain : kAimedOperationsAgain);
  return second;
}

class Loop {
 public:
  Loop(const FaultLoopOptions& options, const MakeScenario& make) : options_(options), make_(make) {}

  FaultLoopResult run() {
    const char* given = std::getenv("KVKEEP_TEST_SEED");
    const std::uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : options_.first_seed;
    for (std::uint64_t seed = first; seed < first + options_.seeds; ++seed) {
      for (const Fault& fault : kFaults) {
        for (const Aftermath aftermath : kAftermaths) {
          if (possible(fault, aftermath)) every_operation({{fault, 0, aftermath}, std::nullopt, seed});
        }
      }
    }
    return result_;
  }

 private:
  bool enough() const { return options_.stop_at_first && result_.broken_cases > 0; }

  void every_operation(FaultCase fault) {
    for (std::uint64_t& at = fault.first.at_operation = 1; at < kMostOperations && !enough(); ++at) {
      fault.second.reset();
      if (disk_seed(fault) % options_.one_in != 0 && at > 1) continue;
      if (!one_case(fault)) return;
      if (!options_.second_faults || enough()) continue;
      fault.second = choose_second(fault);
      one_case(fault);
    }
  }

  // Returns false if the first fault did not fire.
  bool one_case(const FaultCase& fault) {
    SimFileSystem files(disk_seed(fault));
    files.set_lies(options_.lies);
    const auto scenario = make_(files, fault);
    scenario->prepare();
    const bool fired = one_process(*scenario, files, fault.first, &FaultScenario::run);
    if (fault.second && one_process(*scenario, files, *fault.second, &FaultScenario::run_again))
      ++result_.with_two_faults;
    scenario->recover();
    scenario->die();
    note(*scenario, fault);
    return fired;
  }

  // Returns false if the fault did not fire.
  static bool one_process(FaultScenario& scenario, SimFileSystem& files, const FaultyRun& run,
                          void (FaultScenario::*play)()) {
    files.set_plan({run.fault.kind, run.at_operation, run.fault.of});
    (scenario.*play)();
    const bool fired = files.fault_fired();
    if (run.aftermath == Aftermath::kHealThenCut) {
      files.heal();
      scenario.go_on();
    }
    end_process(scenario, files, run.aftermath);
    files.set_plan({});
    return fired;
  }

  static void end_process(FaultScenario& scenario, SimFileSystem& files, Aftermath aftermath) {
    if (aftermath == Aftermath::kKill) {
      files.kill();
    } else {
      files.power_cut();
    }
    scenario.die();  // its destructors come after the end, and reach nothing
    files.heal();
  }

  void note(const FaultScenario& scenario, const FaultCase& fault) {
    ++result_.cases;
    if (scenario.broken_laws().empty()) return;
    ++result_.broken_cases;
    if (result_.examples.size() < kExamplesKept) {
      result_.examples.push_back(fault.describe() + ": " + scenario.broken_laws().front());
    }
  }

  const FaultLoopOptions& options_;
  const MakeScenario& make_;
  FaultLoopResult result_;
};

}  // namespace

std::string FaultCase::describe() const {
  return sim::describe(first) + (second ? "; then " + sim::describe(*second) : "") +
         ", KVKEEP_TEST_SEED=" + std::to_string(seed);
}

FaultLoopResult run_fault_loop(const FaultLoopOptions& options, const MakeScenario& make) {
  return Loop(options, make).run();
}

}  // namespace kvkeep::sim
