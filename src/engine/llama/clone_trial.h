#pragma once

// The trial behind memory_class.h: a tiny random clone of a model's architecture, and what it must be able to do.

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/llama/model_options.h"

namespace kvkeep::engine::llama {

// How the dimensions shrink. Heads keep their size in each, because KV types and rotations depend on it.
enum class CloneShape {
  kNarrow,      // embeddings of 64: smallest
  kMatched,     // embeddings of heads x head size, for architectures that insist on it
};
inline constexpr std::array kCloneShapes{CloneShape::kNarrow, CloneShape::kMatched};
std::string_view to_string(CloneShape shape);

// What the child needs to know, as command line arguments.
std::vector<std::string> trial_arguments(const ModelOptions& options, CloneShape shape);

// Builds the clone and tries it. kUnsupported: no clone, or its memory does not do what slicing needs. Note that
// libllama may end the process instead.
Status run_clone_trial(const std::vector<std::string>& arguments);

}  // namespace kvkeep::engine::llama
