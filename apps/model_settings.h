#pragma once

// The settings that a fingerprint stands for, as text for people: two entries of one model in a cache directory differ
// in them. Pure.

#include <string>
#include <string_view>

#include "engine/llama/model_options.h"

namespace kvkeep::cli {

// Returns the flags that make the fingerprint another than a plain start's, as they are typed: "-ctk q8_0 --no-repack";
// without any, "default". `fingerprint_text` (engine::Description) has what was decided at load. No paths, no salts.
std::string settings_text(const engine::llama::ModelOptions& options, std::string_view fingerprint_text);

// Returns the devices and libraries that computed the state: "CPU, libllama 0.7.0, ggml 0.27.0".
std::string computed_by_text(std::string_view fingerprint_text);

}  // namespace kvkeep::cli
