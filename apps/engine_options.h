#pragma once

// From the command line's options to the engine's.

#include "engine/llama/model_options.h"
#include "engine/sampling.h"
#include "serve_options.h"

namespace kvkeep::cli {

engine::llama::ModelOptions engine_options(const ServeOptions& options);
engine::SamplingParams sampling_params(const SamplingDefaults& defaults);

}  // namespace kvkeep::cli
