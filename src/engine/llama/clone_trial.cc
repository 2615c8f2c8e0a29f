#include "engine/llama/clone_trial.h"

namespace kvkeep::engine::llama {
std::string_view to_string(CloneShape shape) { return shape == CloneShape::kNarrow ? "narrow" : "matched"; }
std::vector<std::string> trial_arguments(const ModelOptions& options, CloneShape shape) {
  return {options.path, options.type_k, options.type_v, std::string(to_string(shape))};
}
Status run_clone_trial(const std::vector<std::string>&) { return {}; }
}  // namespace kvkeep::engine::llama
