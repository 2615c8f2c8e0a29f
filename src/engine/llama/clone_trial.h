#pragma once

// The trial behind memory_class.h: what the memory of a tiny clone must be able to do.

#include <string>
#include <vector>

#include "base/result.h"
#include "engine/llama/clone_model.h"
#include "engine/llama/model_options.h"

namespace kvkeep::engine::llama {

// What the trial needs to know, as command line arguments for a child process.
std::vector<std::string> trial_arguments(const ModelOptions& options, CloneShape shape);

// Builds the clone and tries it. kUnsupported: no clone, or its memory does not do what slicing needs; kInvalid: not
// the arguments of trial_arguments. Note that libllama may end the process instead.
Status run_clone_trial(const std::vector<std::string>& arguments);

}  // namespace kvkeep::engine::llama
