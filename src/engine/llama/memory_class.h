#pragma once

// Finds the memory class of a model: how its memory can be saved and restored.
//
// The answer is proven, not looked up: a tiny clone of the architecture (the model's own metadata with smaller
// dimensions, random weights) computes a conversation past window and ubatches, and its state must come back byte for
// byte in every way that the class needs. Some architectures end the process when a range of a sequence is copied, so
// that the trial runs in a child process. A model whose state cannot be taken apart is *opaque*: whole states are tried
// instead. A model that fails that, too, is served without a cache.

#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "engine/llama/library.h"
#include "engine/llama/model_options.h"
#include "engine/llama/state_parts.h"

namespace kvkeep::engine::llama {

struct ClassVerdict {
  ClassFinding finding;
  std::string reason;  // one line
  // One line: why sequences cannot have cells of their own, if ModelOptions::own_cells or choose_cells asks
  // for that and finding.own_cells is false.
  std::string no_own_cells = {};
  // False if there is no clone, so that nothing was tried: whole states must be tried in the model's own context.
  bool tried = true;
};

// The hidden command that the program must answer by calling class_test_main with the arguments after it.
inline constexpr const char* kClassTestCommand = "internal-class-test";

// Decides for a loaded model: by one trial if it passes, else by up to four.
ClassVerdict find_memory_class(const llama_model& model, const ModelOptions& options);

// The child's side: prints each proven line, and returns the exit code, 0 if the trial ended in order.
int class_test_main(const std::vector<std::string>& arguments);

}  // namespace kvkeep::engine::llama
