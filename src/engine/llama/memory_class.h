#pragma once

// Finds out how a model's memory can be saved and put back: its memory class.
//
// The answer is proven, not looked up: a tiny clone of the architecture (the model's own metadata with its dimensions
// shrunk, random weights) computes a conversation past window and ubatches, and its state must come back byte for byte
// in every way that the class needs. Some architectures end the process when a range of a sequence is copied, so the
// trial runs in a child process. What cannot be taken apart is *opaque*: whole states are tried instead. A model that
// fails that, too, is served without a cache.

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
  // False: there is no clone, so nothing was tried, and whole states must prove themselves in the model's own context.
  bool tried = true;
};

// The hidden command that the program must answer by calling class_test_main with the arguments behind it.
inline constexpr const char* kClassTestCommand = "internal-class-test";

// Decides for a loaded model: by one trial where it passes, up to four where not.
ClassVerdict find_memory_class(const llama_model& model, const ModelOptions& options);

// The child's side: prints what it proves, line by line; returns the exit code, 0 if it came to the end.
int class_test_main(const std::vector<std::string>& arguments);

}  // namespace kvkeep::engine::llama
