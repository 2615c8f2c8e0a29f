#pragma once

// The trial that memory_class.h reports: builds a tiny clone of a model and finds out what its memory can do.
//
// A conversation is computed and saved on the way, restored in another context at two positions, forked, cut, and
// computed further, past window and ubatch. Restored state must have the saved bytes, and untouched state must keep its
// bytes. Logits would not do: they hide what a window forgot, and differ in the last bits where nothing is wrong.

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/llama/clone_model.h"
#include "engine/llama/model_options.h"
#include "engine/llama/state_parts.h"

namespace kvkeep::engine::llama {

enum class TrialKind {
  kParts,  // rows, windows, points: as the state's bytes suggest
  kWhole,  // only the whole state
};

// The inputs of a trial, as command line arguments for a child process.
std::vector<std::string> trial_arguments(const ModelOptions& options, CloneShape shape, TrialKind kind);

// Receives each line as soon as something is proven: libllama may end the process at the next step.
using TrialReport = std::function<void(std::string_view line)>;

// Builds the clone and tries it. kUnsupported if there is no clone, or its memory cannot do what is tried; kInvalid if
// the arguments are not those of trial_arguments; other errors say nothing of the memory: it may lack room, say.
Status run_clone_trial(const std::vector<std::string>& arguments, const TrialReport& report);

// The meaning of the reported lines.
struct TrialOutcome {
  bool cloned = false;  // the clone exists: a later failure is its memory's
  ClassFinding finding;
};
TrialOutcome read_trial_report(std::string_view lines);

// Tries `finding`, or the class that the state's bytes look like. Returns what was proven. `options`: of the clone's
// contexts; sizes are set here. kUnsupported: the memory cannot do it; other errors: that is not known. libllama may
// also end the process.
Result<ClassFinding> run_class_trial(llama_model& clone, ModelOptions options, std::optional<ClassFinding> finding);

// Tries a memory in which each sequence has cells of its own (stream_memory.h). kUnsupported as above.
Status try_own_cells(llama_model& clone, ModelOptions options);

// Returns true if sequences have cells of their own: two together hold more than the context has.
Result<bool> try_cells_per_sequence(llama_model& clone, ModelOptions options);

}  // namespace kvkeep::engine::llama
