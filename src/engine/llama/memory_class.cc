#include "engine/llama/memory_class.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "engine/llama/clone_trial.h"
#include "os/process.h"

namespace kvkeep::engine::llama {
namespace {

constexpr int kTrialTimeoutMs = 60'000;
constexpr int kAbortedExitCode = 3;

// What needs no trial: nothing but rows may be in the memory, and every row of the past must stay.
std::string certain_obstacle(const llama_model& model) {
  if (llama_model_is_recurrent(&model)) return "recurrent state";
  if (llama_model_is_hybrid(&model)) return "attention rows beside recurrent state";
  if (llama_model_n_swa(&model) > 0) return fmt::format("sliding window of {} tokens", llama_model_n_swa(&model));
  if (llama_model_is_diffusion(&model)) return "diffusion model";
  if (llama_model_has_encoder(&model)) return "model with an encoder";
  return {};
}

std::string signal_or_exit(const os::ChildResult& child) {
  if (child.timed_out) return "took too long";
  if (child.signal != 0) return fmt::format("ended by signal {}", child.signal);
  return child.output.empty() ? fmt::format("exit code {}", child.exit_code)
                              : child.output.substr(0, child.output.find('\n'));
}

// Empty: it passed.
std::string try_in_child(const ModelOptions& options, CloneShape shape) {
  os::ChildOptions child{.program = options.class_test_program,
                         .arguments = trial_arguments(options, shape),
                         .timeout_ms = kTrialTimeoutMs,
                         .hide_errors = true};
  child.arguments.insert(child.arguments.begin(), kClassTestCommand);
  const auto result = os::run_child(child);
  if (!result) return result.error().message;
  return result->succeeded() ? std::string() : signal_or_exit(*result);
}

std::string try_clone(const ModelOptions& options, CloneShape shape) {
  if (!options.class_test_program.empty()) return try_in_child(options, shape);
  const Status tried = run_clone_trial(trial_arguments(options, shape));
  return tried ? std::string() : tried.error().message;
}

}  // namespace

ClassVerdict find_memory_class(const llama_model& model, const ModelOptions& options) {
  if (std::string obstacle = certain_obstacle(model); !obstacle.empty()) return {MemoryClass::kUncached, obstacle};
  std::string reasons;
  for (const CloneShape shape : clone_shapes(options.path)) {
    const std::string failure = try_clone(options, shape);
    if (failure.empty()) {
      return {MemoryClass::kSliceable, fmt::format("rows of a {} clone came back byte for byte", to_string(shape))};
    }
    reasons += fmt::format("{}{} clone: {}", reasons.empty() ? "" : "; ", to_string(shape), failure);
  }
  return {MemoryClass::kUncached, reasons};
}

int class_test_main(const std::vector<std::string>& arguments) {
  // Without this libllama would start a debugger to print where it gave up.
  ggml_set_abort_callback([](const char* message) {
    fmt::print("{}\n", message);
    std::fflush(stdout);
    std::_Exit(kAbortedExitCode);
  });
  const Status tried = run_clone_trial(arguments);
  if (tried) return 0;
  fmt::print("{}\n", tried.error().message);
  return 1;
}

}  // namespace kvkeep::engine::llama
