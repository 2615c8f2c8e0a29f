#pragma once

// What a model's memory must be able to do to be of a class, tried on contexts of a tiny clone.
//
// A conversation is computed and saved on the way, restored in another context at two positions, forked, cut and
// computed on past window and ubatch. What comes back must be the saved bytes, and what is not touched must keep its
// bytes. Logits would not do: they hide what a window forgot, and differ in the last bits where nothing is wrong.

#include <optional>

#include "base/result.h"
#include "engine/llama/model_options.h"
#include "engine/llama/state_parts.h"

namespace kvkeep::engine::llama {

// Tries `finding`, or the class that the state's bytes look like. Returns what was proven. `options`: of the clone's
// contexts; sizes are set here. kUnsupported: the memory cannot do it. libllama may also end the process.
Result<ClassFinding> run_class_trial(llama_model& clone, ModelOptions options, std::optional<ClassFinding> finding);

// True if sequences do not take each other's cells: two hold more together than the context has.
Result<bool> try_cells_per_sequence(llama_model& clone, ModelOptions options);

}  // namespace kvkeep::engine::llama
