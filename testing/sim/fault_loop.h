#pragma once

// The exhaustive fault loop: a scenario is run with a fault at operation 1, 2, 3... until no fault fires, for each kind
// of fault and each way the process may end after it; then the disk is looked at through the eyes of a new process.
//
// A scenario owns the code under test; the loop owns the disk. Laws that a scenario finds broken are collected, not
// thrown, so that the same loop runs the tests of the code and the tests of the laws (mutants must break one).

#include <cstdint>
#include <functional>
#include <memory>
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

struct FaultCase {
  FaultKind kind = FaultKind::kNone;
  std::uint64_t at_operation = 0;
  Aftermath aftermath = Aftermath::kPowerCut;
  std::uint64_t seed = 0;
  std::string describe() const;
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
  Lies lies = {};
  bool stop_at_first = false;  // for mutants: one broken law is enough
};

struct FaultLoopResult {
  std::uint64_t cases = 0;
  std::uint64_t broken_cases = 0;
  std::vector<std::string> examples;  // the first few, with how to get them again
};

// KVKEEP_TEST_SEED, if set, replaces `first_seed`.
FaultLoopResult run_fault_loop(const FaultLoopOptions& options, const MakeScenario& make);

}  // namespace kvkeep::sim
