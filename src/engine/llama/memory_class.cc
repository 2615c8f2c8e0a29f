#include "engine/llama/memory_class.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "engine/llama/clone_trial.h"
#include "os/child_process.h"

namespace kvkeep::engine::llama {
namespace {

constexpr int kTrialTimeoutMs = 60'000;
constexpr int kAbortedExitCode = 3;

// Why no trial can help: such a model has no conversation that grows.
std::string certain_obstacle(const llama_model& model) {
  if (llama_model_is_diffusion(&model)) return "diffusion model";
  if (llama_model_has_encoder(&model)) return "model with an encoder";
  return {};
}

struct Trial {
  TrialOutcome outcome;
  std::string failure;  // empty: the trial ended in order
};

std::string_view last_line(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  return text.substr(text.rfind('\n') + 1);
}

std::string failure_of(const os::ChildResult& child) {
  if (child.succeeded()) return {};
  if (child.timed_out) return "took too long";
  if (child.signal != 0) return fmt::format("ended by signal {}", child.signal);
  return child.output.empty() ? fmt::format("exit code {}", child.exit_code) : std::string(last_line(child.output));
}

Trial try_in_child(const ModelOptions& options, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), kClassTestCommand);
  const auto child = os::run_child({.program = options.class_test_program,
                                    .arguments = std::move(arguments),
                                    .timeout_ms = kTrialTimeoutMs,
                                    .hide_errors = true});
  if (!child) return {{}, child.error().message};
  return {read_trial_report(child->output), failure_of(*child)};
}

Trial try_clone(const ModelOptions& options, CloneShape shape, TrialKind kind) {
  std::vector<std::string> arguments = trial_arguments(options, shape, kind);
  if (!options.class_test_program.empty()) return try_in_child(options, std::move(arguments));
  std::string lines;
  const Status tried = run_clone_trial(arguments, [&](std::string_view line) { lines += fmt::format("{}\n", line); });
  return {read_trial_report(lines), tried ? std::string() : tried.error().message};
}

}  // namespace

ClassVerdict find_memory_class(const llama_model& model, const ModelOptions& options) {
  if (std::string obstacle = certain_obstacle(model); !obstacle.empty()) return {.finding = {}, .reason = obstacle};
  std::string failures;
  bool cloned = false;
  for (const TrialKind kind : {TrialKind::kParts, TrialKind::kWhole}) {
    for (const CloneShape shape : clone_shapes(options.path)) {
      const Trial trial = try_clone(options, shape, kind);
      if (trial.outcome.finding.memory_class != MemoryClass::kUncached) {
        std::string reason = fmt::format("state of a {} clone came back byte for byte", to_string(shape));
        if (kind == TrialKind::kWhole) reason += fmt::format(" as a whole only ({})", failures);
        return {.finding = trial.outcome.finding, .reason = std::move(reason), .no_own_cells = trial.failure};
      }
      cloned |= trial.outcome.cloned;
      const std::string_view tried = kind == TrialKind::kParts ? "" : " as a whole";
      failures += fmt::format("{}{} clone{}: {}", failures.empty() ? "" : "; ", to_string(shape), tried, trial.failure);
    }
  }
  if (cloned) return {.finding = {}, .reason = failures};
  return {.finding = {.memory_class = MemoryClass::kOpaque}, .reason = failures, .tried = false};
}

int class_test_main(const std::vector<std::string>& arguments) {
  // Otherwise libllama would start a debugger to print the stack.
  ggml_set_abort_callback([](const char* message) {
    fmt::print("{}\n", message);
    std::fflush(stdout);
    std::_Exit(kAbortedExitCode);
  });
  const Status tried = run_clone_trial(arguments, [](std::string_view line) {
    fmt::print("{}\n", line);
    std::fflush(stdout);
  });
  if (tried) return 0;
  fmt::print("{}\n", tried.error().message);
  return 1;
}

}  // namespace kvkeep::engine::llama
