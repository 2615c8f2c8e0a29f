#include "testing/sim/fault_loop.h"

#include <cstdlib>

namespace kvkeep::sim {
namespace {

constexpr std::size_t kExamplesKept = 5;
constexpr std::uint64_t kMostOperations = 100'000;  // a scenario that never ends is a bug of the scenario

const char* name_of(FaultKind kind) {
  switch (kind) {
    case FaultKind::kCrash: return "crash";
    case FaultKind::kFailOnce: return "fail once";
    case FaultKind::kFailForever: return "fail for ever";
    default: return "no fault";
  }
}

const char* name_of(Aftermath aftermath) {
  switch (aftermath) {
    case Aftermath::kPowerCut: return "power cut";
    case Aftermath::kKill: return "kill";
    default: return "heal, then power cut";
  }
}

// Different disks for each case, the same disk for the same case.
std::uint64_t disk_seed(const FaultCase& fault) {
  return fault.seed * 1'000'003 + fault.at_operation * 31 + static_cast<std::uint64_t>(fault.kind) * 7 +
         static_cast<std::uint64_t>(fault.aftermath);
}

class Loop {
 public:
  Loop(const FaultLoopOptions& options, const MakeScenario& make) : options_(options), make_(make) {}

  FaultLoopResult run() {
    const char* given = std::getenv("KVKEEP_TEST_SEED");
    const std::uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : options_.first_seed;
    for (std::uint64_t seed = first; seed < first + options_.seeds; ++seed) {
      for (const FaultKind kind : {FaultKind::kCrash, FaultKind::kFailOnce, FaultKind::kFailForever}) {
        for (const Aftermath aftermath : {Aftermath::kPowerCut, Aftermath::kKill, Aftermath::kHealThenCut}) {
          if (kind == FaultKind::kCrash && aftermath == Aftermath::kHealThenCut) continue;
          every_operation({kind, 0, aftermath, seed});
        }
      }
    }
    return result_;
  }

 private:
  bool enough() const { return options_.stop_at_first && result_.broken_cases > 0; }

  void every_operation(FaultCase fault) {
    for (fault.at_operation = 1; fault.at_operation < kMostOperations && !enough(); ++fault.at_operation) {
      if (!one_case(fault)) return;
    }
  }

  // False: the fault did not fire.
  bool one_case(const FaultCase& fault) {
    SimFileSystem files(disk_seed(fault));
    files.set_lies(options_.lies);
    const auto scenario = make_(files, fault);
    scenario->prepare();
    files.set_plan({fault.kind, fault.at_operation});
    scenario->run();
    const bool fired = files.fault_fired();
    if (fault.aftermath == Aftermath::kHealThenCut) {
      files.heal();
      scenario->go_on();
    }
    end_process(*scenario, files, fault.aftermath);
    scenario->recover();
    scenario->die();
    note(*scenario, fault);
    return fired;
  }

  static void end_process(FaultScenario& scenario, SimFileSystem& files, Aftermath aftermath) {
    if (aftermath == Aftermath::kKill) {
      files.kill();
    } else {
      files.power_cut();
    }
    scenario.die();  // after the end: its destructors reach nothing
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
  return std::string(name_of(kind)) + " at operation " + std::to_string(at_operation) + ", " + name_of(aftermath) +
         ", KVKEEP_TEST_SEED=" + std::to_string(seed);
}

FaultLoopResult run_fault_loop(const FaultLoopOptions& options, const MakeScenario& make) {
  return Loop(options, make).run();
}

}  // namespace kvkeep::sim
