#pragma once

// What a fingerprint stands for beside the model, as text for people: two entries of one model in a cache directory
// differ by it. Pure.

#include <string>
#include <string_view>

#include "engine/llama/model_options.h"

namespace kvkeep::cli {

// The flags that set another fingerprint than none would, as they are typed: "-ctk q8_0 --no-repack"; "default".
// `fingerprint_text`: as in engine::Description, for what was decided at load. No paths, and no salts.
std::string settings_text(const engine::llama::ModelOptions& options, std::string_view fingerprint_text);

// What computed it: "CPU, libllama 0.7.0, ggml 0.27.0".
std::string computed_by_text(std::string_view fingerprint_text);

}  // namespace kvkeep::cli
