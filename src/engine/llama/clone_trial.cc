#include "engine/llama/clone_trial.h"

#include <array>

#include "engine/llama/class_trial.h"

namespace kvkeep::engine::llama {
namespace {

// Lines of the report; classes report their name.
constexpr std::string_view kCloned = "cloned";
constexpr std::string_view kCellsPerSequence = "cells per sequence";
constexpr std::string_view kCopiesWhole = "copies whole sequences";
constexpr std::array kClasses{MemoryClass::kSliceable, MemoryClass::kWindowed, MemoryClass::kHybrid,
                              MemoryClass::kRecurrent, MemoryClass::kOpaque};

Status try_parts(llama_model& clone, const ModelOptions& options, const TrialReport& report) {
  TRY_ASSIGN(const ClassFinding found, run_class_trial(clone, options, std::nullopt));
  report(to_string(found.memory_class));
  return {};
}

// The safe way first: some architectures end the process where sequences are copied.
Status try_whole(llama_model& clone, const ModelOptions& options, const TrialReport& report) {
  ClassFinding tried{.memory_class = MemoryClass::kOpaque};
  TRY(run_class_trial(clone, options, tried));
  report(to_string(tried.memory_class));
  TRY_ASSIGN(const bool cells_per_sequence, try_cells_per_sequence(clone, options));
  if (cells_per_sequence) report(kCellsPerSequence);
  tried.copies_whole = true;
  if (run_class_trial(clone, options, tried)) report(kCopiesWhole);
  return {};
}

}  // namespace

std::vector<std::string> trial_arguments(const ModelOptions& options, CloneShape shape, TrialKind kind) {
  const char* flash = options.flash_attention == FlashAttention::kOff ? "off" : "auto";
  return {options.path,
          options.type_k,
          options.type_v,
          flash,
          std::string(to_string(shape)),
          kind == TrialKind::kParts ? "parts" : "whole"};
}

Status run_clone_trial(const std::vector<std::string>& arguments, const TrialReport& report) {
  if (arguments.size() != 6) return invalid("a class test takes six arguments");
  start_library();
  ModelOptions options;
  options.type_k = arguments[1];
  options.type_v = arguments[2];
  options.flash_attention = arguments[3] == "off" ? FlashAttention::kOff : FlashAttention::kAuto;
  const CloneShape shape = arguments[4] == to_string(CloneShape::kNarrow) ? CloneShape::kNarrow : CloneShape::kMatched;
  TRY_ASSIGN(const ModelHandle clone, make_clone(arguments[0], shape));
  report(kCloned);
  return arguments[5] == "parts" ? try_parts(*clone, options, report) : try_whole(*clone, options, report);
}

TrialOutcome read_trial_report(std::string_view lines) {
  TrialOutcome outcome;
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(line.size() + 1, lines.size()));
    if (line == kCloned) outcome.cloned = true;
    if (line == kCellsPerSequence) outcome.finding.cells_per_sequence = true;
    if (line == kCopiesWhole) outcome.finding.copies_whole = true;
    for (const MemoryClass found : kClasses) {
      if (line == to_string(found)) outcome.finding.memory_class = found;
    }
  }
  return outcome;
}

}  // namespace kvkeep::engine::llama
