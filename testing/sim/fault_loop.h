#pragma once

// The exhaustive fault loop: a scenario is run with a fault at operation 1, 2, 3... until no fault fires, for each
// fault and each way the process may end after it; then the disk is looked at through the eyes of a new process. Each
// case is run a second time with another fault, which the seed chooses, in the process that comes after the first end.
//
// A scenario owns the code under test; the loop owns the disk. Laws that a scenario finds broken are collected, not
// thrown, so that the same loop runs the tests of the code and the tests of the laws (mutants must break one).

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "testing/sim/sim_file_system.h"

namespace kvkeep::sim {

// How the faulty part ends.
enum class Aftermath {
  kPowerCut,
  kKill,         // the process dies, the system goes on
  kHealThenCut,  // faults stop, the same process goes on, later the power is cut
};

struct Fault {
  const char* name = "no fault";
  FaultKind kind = FaultKind::kNone;
  Operations of = Operations::all();
};

// All that may go wrong at an operation.
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
  std::uint64_t at_operation = 0;  // of those that the fault is aimed at
  Aftermath aftermath = Aftermath::kPowerCut;
};

struct FaultCase {
  FaultyRun first;
  std::optional<FaultyRun> second;
  std::uint64_t seed = 0;
  std::string describe() const;
  // Power was never cut: all that was seen is still there.
  bool only_kills() const {
    return first.aftermath == Aftermath::kKill && (!second || second->aftermath == Aftermath::kKill);
  }
};

class FaultScenario {
 public:
  virtual ~FaultScenario() = default;
  // Without faults: what was there before.
  virtual void prepare() = 0;
  // With the fault. Every error must be taken in stride.
  virtual void run() = 0;
  // kHealThenCut: faults have stopped; within a bounded number of operations all must work again.
  virtual void go_on() = 0;
  // The process after the first end, with the second fault. Every error must be taken in stride.
  virtual void run_again() = 0;
  // Drops every object of the process under test. Its file system calls have no effect any more.
  virtual void die() = 0;
  // A new process, no faults: checks the laws. May cut the power again.
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
  // Of each fault's cases the seed chooses one in so many: for scenarios that are slow. 1: all.
  std::uint64_t one_in = 1;
  Lies lies = {};
  bool stop_at_first = false;  // for mutants: one broken law is enough
};

struct FaultLoopResult {
  std::uint64_t cases = 0;
  std::uint64_t with_two_faults = 0;  // of them: a second one fired
  std::uint64_t broken_cases = 0;
  std::vector<std::string> examples;  // the first few, with how to get them again
};

// KVKEEP_TEST_SEED, if set, replaces `first_seed`.
FaultLoopResult run_fault_loop(const FaultLoopOptions& options, const MakeScenario& make);

}  // namespace kvkeep::sim
