#pragma once

// Finds out whether a model's rows can be cut out of its memory and put back: whether it is *sliceable*.
//
// The answer is proven, not looked up: a tiny clone of the architecture (the model's own metadata with its dimensions
// shrunk, random weights) is prefilled past several ubatches, its rows are saved in pieces and restored elsewhere, and
// the state must come back byte for byte. Logits would not do: they hide what a window forgot, and differ in the last
// bits where nothing is wrong. Some architectures end the process when a range of a sequence is copied, so the trial
// runs in a child process. No clone, an abort, a time-out or a difference: the model is served without a cache.

#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "engine/llama/library.h"
#include "engine/llama/model_options.h"

namespace kvkeep::engine::llama {

struct ClassVerdict {
  MemoryClass memory_class = MemoryClass::kUncached;
  std::string reason;  // one line
};

// The hidden command that the program must answer by calling class_test_main with the arguments behind it.
inline constexpr const char* kClassTestCommand = "internal-class-test";

// Decides for a loaded model. Cheap where certain (recurrent state, windows, no memory); else a trial.
ClassVerdict find_memory_class(const llama_model& model, const ModelOptions& options);

// The child's side: returns the exit code, 0 if rows came back byte for byte; prints one line that says why not.
int class_test_main(const std::vector<std::string>& arguments);

}  // namespace kvkeep::engine::llama
