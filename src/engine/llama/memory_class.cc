#include "engine/llama/memory_class.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <span>

#include "base/hash.h"
#include "engine/gguf/model_identity.h"
#include "engine/llama/clone_trial.h"
#include "os/child_process.h"
#include "os/file_stamp.h"

namespace kvkeep::engine::llama {
namespace {

constexpr int kTrialTimeoutMs = 60'000;
// Exit codes of a trial that failed: the memory cannot do what was tried; or that is not known, for lack of memory,
// say.
constexpr int kRefutedExitCode = 1;
constexpr int kUnknownExitCode = 2;
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

// Names everything that a trial depends on: the model's files, this program and the libraries that it computes with,
// and the arguments after the path. nullopt: the files cannot be asked.
std::optional<std::string> name_of_trial(const std::vector<std::string>& arguments) {
  const auto paths = gguf::split_paths(arguments.front());
  if (!paths) return std::nullopt;
  std::vector<os::FileStamp> stamps = os::stamps_of_program({"libllama", "libggml"});
  for (const std::string& path : *paths) {
    const auto stamp = os::stamp_of(path);
    if (!stamp) return std::nullopt;
    stamps.push_back(*stamp);
  }
  ByteHasher hasher;
  hasher.append_field("kvkeep class trial 1");
  for (const os::FileStamp& stamp : stamps) {
    hasher.append_field(stamp.inode);
    hasher.append_field(stamp.size_bytes);
    hasher.append_field(static_cast<std::uint64_t>(stamp.modified_ns));
    hasher.append_field(static_cast<std::uint64_t>(stamp.changed_ns));
  }
  for (const std::string& argument : std::span(arguments).subspan(1)) hasher.append_field(argument);
  return hasher.finish<ModelHash>().hex();
}

// Kept in one line: whether the trial ended in order, and its lines.
constexpr char kLineEnd = ';';

std::string kept_text(const Trial& trial, std::string output) {
  std::ranges::replace(output, '\n', kLineEnd);
  return (trial.failure.empty() ? "passed;" : "failed;") + output;
}

Trial read_kept(std::string text) {
  std::ranges::replace(text, kLineEnd, '\n');
  const bool passed = text.starts_with("passed");
  return {read_trial_report(text), passed ? std::string() : std::string(last_line(text))};
}

// A trial that could not end, for lack of time or memory, may end another time.
bool is_certain(const os::ChildResult& child) {
  return !child.timed_out && child.signal == 0 && child.exit_code <= kRefutedExitCode &&
         child.output.find(kLineEnd) == std::string::npos;
}

Trial try_in_child(const ModelOptions& options, std::vector<std::string> arguments) {
  const auto name = options.kept_trials ? name_of_trial(arguments) : std::nullopt;
  if (name) {
    if (auto kept = options.kept_trials->find(*name)) return read_kept(*std::move(kept));
  }
  arguments.insert(arguments.begin(), kClassTestCommand);
  const auto child = os::run_child({.program = options.class_test_program,
                                    .arguments = std::move(arguments),
                                    .timeout_ms = kTrialTimeoutMs,
                                    .hide_errors = true});
  if (!child) return {{}, child.error().message};
  Trial trial{read_trial_report(child->output), failure_of(*child)};
  if (name && trial.outcome.finding.memory_class != MemoryClass::kUncached && is_certain(*child)) {
    options.kept_trials->keep(*name, kept_text(trial, child->output));
  }
  return trial;
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
  if (std::string obstacle = certain_obstacle(model); !obstacle.empty())
    return {.finding = {}, .reason = obstacle, .no_own_cells = obstacle};
  std::string failures;
  bool cloned = false;
  for (const TrialKind kind : {TrialKind::kParts, TrialKind::kWhole}) {
    for (const CloneShape shape : clone_shapes(options.path)) {
      const Trial trial = try_clone(options, shape, kind);
      if (trial.outcome.finding.memory_class != MemoryClass::kUncached) {
        std::string reason = fmt::format("state of a {} clone came back byte for byte", to_string(shape));
        std::string no_own_cells = trial.failure;
        if (kind == TrialKind::kWhole) {
          reason += fmt::format(" as a whole only ({})", failures);
          no_own_cells = "the state of a sequence can be copied only as a whole";
        }
        return {.finding = trial.outcome.finding, .reason = std::move(reason), .no_own_cells = std::move(no_own_cells)};
      }
      cloned |= trial.outcome.cloned;
      const std::string_view tried = kind == TrialKind::kParts ? "" : " as a whole";
      failures += fmt::format("{}{} clone{}: {}", failures.empty() ? "" : "; ", to_string(shape), tried, trial.failure);
    }
  }
  if (cloned) return {.finding = {}, .reason = failures, .no_own_cells = failures};
  return {
      .finding = {.memory_class = MemoryClass::kOpaque}, .reason = failures, .no_own_cells = failures, .tried = false};
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
  return tried.error().kind == ErrorKind::kUnsupported ? kRefutedExitCode : kUnknownExitCode;
}

}  // namespace kvkeep::engine::llama
