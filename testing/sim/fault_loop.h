#pragma once

// The exhaustive fault loop: a scenario is run with a fault at operation 1, 2, 3... until no fault fires, for each
// fault and each way the process may end after it; then a new process checks the disk. Each case is run a second time
// with another fault, which the seed chooses, in the process that comes after the first end.
//
// A scenario owns the code under test; the loop owns the disk. Laws that a scenario finds broken are collected, not
// thrown, so that the same loop runs tests of the code and tests of the laws (mutants must break one).

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "testing/sim/sim_file_system.h"

namespace kvkeep::sim {

// How the process with the fault ends.
enum class Aftermath {
  kPowerCut,
  kKill,         // the process dies, the system runs on
  kHealThenCut,  // faults stop, the same process runs on, later the power is cut
};

struct Fault {
  const char* name = "no fault";
  FaultKind kind = FaultKind::kNone;
  Operations of = Operations::all();
};

// All faults of an operation.
inline constexpr Fault kFaults[] = {
    {"crash", FaultKind::kCrash},
    {"fail once", FaultKind::kFailOnce},
    {"fail for ever", FaultKind::kFailForever},
    {"no space once", FaultKind::kNoSpaceOnce, kGrowing},
    {"disk full", FaultKind::kDiskFull, kGrowing},
    {"syncs fail for ever", FaultKind::kFailForever, kSyncs},
    {"removes fail for ever", FaultKind::kFailForever, {Operation::kRemove}},
    {"renames fail for ever", FaultKind::kFailForever, {Operation::kRename}},
    {"reads fail for ever", FaultKind::kFailForever, {Operation::kOpen, Operation::kRead}},
    {"lists fail for ever", FaultKind::kFailForever, {Operation::kList}},
    {"short read", FaultKind::kShortRead, {Operation::kRead}},
    {"rotten bit", FaultKind::kRot, {Operation::kRead}},
    {"an hour's wait", FaultKind::kSlow},
};

// A fault in one process, and how that process ends.
struct FaultyRun {
  Fault fault;
  std::uint64_t at_operation = 0;  // counted among those that the fault is aimed at
  Aftermath aftermath = Aftermath::kPowerCut;
};

struct FaultCase {
  FaultyRun first;
  std::optional<FaultyRun> second;
  std::uint64_t seed = 0;
  std::string describe() const;
  // Returns true if the power was never cut: all that was seen is still there.
  bool only_kills() const {
    return first.aftermath == Aftermath::kKill && (!second || second->aftermath == Aftermath::kKill);
  }
};

class FaultScenario {
 public:
  virtual ~FaultScenario() = default;
  // Without faults: makes the initial state.
  virtual void prepare() = 0;
  // With the fault. Every error must be handled.
  virtual void run() = 0;
  // kHealThenCut: faults have stopped; within a bounded number of operations everything must work again.
  virtual void go_on() = 0;
  // The process after the first end, with the second fault. Every error must be handled.
  virtual void run_again() = 0;
  // Drops every object of the process under test. Its file system calls have no effect any more.
  virtual void die() = 0;
  // A new process without faults: checks the laws. May cut the power again.
  virtual void recover() = 0;

  const std::vector<std::string>& broken_laws() const { return broken_; }

 protected:
  void broken(std::string what) { broken_.push_back(std::move(what)); }

 private:
  std::vector<std::string> broken_;
};

using MakeScenario = std::function<std::unique_ptr<FaultScenario>(SimFileSystem&, const FaultCase&)>;

struct FaultLoopOptions {
  std::uint64_t first_seed = 1;
  std::uint64_t seeds = 1;
  bool second_faults = true;
  // For slow scenarios: the seed chooses one of this many of each fault's cases. 1: all.
  std::uint64_t one_in = 1;
  Lies lies = {};
  bool stop_at_first = false;  // for mutants: one broken law is enough
};

struct FaultLoopResult {
  std::uint64_t cases = 0;
  std::uint64_t with_two_faults = 0;  // of them, those in which a second fault fired
  std::uint64_t broken_cases = 0;
  std::vector<std::string> examples;  // the first few, with how to repeat them
};

// KVKEEP_TEST_SEED, if set, replaces `first_seed`.
FaultLoopResult run_fault_loop(const FaultLoopOptions& options, const MakeScenario& make);

}  // namespace kvkeep::sim
