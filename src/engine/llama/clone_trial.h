#pragma once

// The trial behind memory_class.h: builds a tiny clone of a model and finds out what its memory can do.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/llama/clone_model.h"
#include "engine/llama/model_options.h"
#include "engine/llama/state_parts.h"

namespace kvkeep::engine::llama {

enum class TrialKind {
  kParts,  // rows, windows, points: as the state's bytes look
  kWhole,  // the whole state alone
};

// What the trial needs to know, as command line arguments for a child process.
std::vector<std::string> trial_arguments(const ModelOptions& options, CloneShape shape, TrialKind kind);

// Told line by line, as soon as something is proven: libllama may end the process at the next step.
using TrialReport = std::function<void(std::string_view line)>;

// Builds the clone and tries it. kUnsupported: no clone, or its memory cannot do what is tried; kInvalid: not the
// arguments of trial_arguments.
Status run_clone_trial(const std::vector<std::string>& arguments, const TrialReport& report);

// What the reported lines say.
struct TrialOutcome {
  bool cloned = false;  // the clone exists: what failed afterwards is its memory's doing
  ClassFinding finding;
};
TrialOutcome read_trial_report(std::string_view lines);

}  // namespace kvkeep::engine::llama
