#pragma once

// The threads that contexts compute with, where ModelOptions place them, give them a priority, or say how they wait for
// each other. Without such options libggml chooses by itself, and there are no pools here.

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "engine/llama/library.h"
#include "engine/llama/model_options.h"

namespace kvkeep::engine::llama {

// Where libggml computes with OpenMP, which has one way of waiting for all its threads and reads it from the
// environment before the program begins: GNU's library takes this variable, of turns in a loop.
inline constexpr const char* kSpinVariable = "GOMP_SPINCOUNT";

// How threads wait, as far as this process can still say.
enum class Waiting {
  kAsAsked,        // or a pool sees to it
  kWithAVariable,  // the program has to begin anew with kSpinVariable = spin_count()
};

// Returns what has to be done so that threads wait as options say. kUnsupported if they cannot. `spin_set` is the value
// of the variable, "" if there is none.
Result<Waiting> check_waiting(const ModelOptions& options, const std::string& spin_set);
std::string spin_count(const ModelOptions& options);

// Engine thread only. Outlives the contexts that it is attached to.
class ThreadPools {
 public:
  // Returns null if the options ask for nothing. kInvalid if they name no processor that this process may use, or a
  // priority that the system does not permit.
  static Result<std::shared_ptr<ThreadPools>> make(const ModelOptions& options);
  ~ThreadPools();
  ThreadPools(const ThreadPools&) = delete;
  ThreadPools& operator=(const ThreadPools&) = delete;

  void attach(llama_context& context) const;
  // To be called before so many tokens are computed: places the calling thread if it computes alone, which libggml
  // does only for several threads.
  void begin(std::size_t tokens);

 private:
  struct Pool {
    ThreadRules rules;
    int threads = 1;
    ggml_threadpool* made = nullptr;
  };
  ThreadPools() = default;

  Pool single_;
  Pool batch_;
  const Pool* placed_for_ = nullptr;  // the calling thread is placed for it
};

// Completes the rules of both kinds of computation for this machine: `allowed` are the processors that the process may
// run on. Pure. kInvalid if none of those that a rule names is allowed, or only one of them has a priority.
struct BothRules {
  ThreadRules single;
  ThreadRules batch;
};
Result<BothRules> complete_rules(const ModelOptions& options, const std::vector<std::uint32_t>& allowed);

}  // namespace kvkeep::engine::llama
