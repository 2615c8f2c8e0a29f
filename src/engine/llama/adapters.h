#pragma once

// LoRA adapters and control vectors: loaded, put on a context, and named for the fingerprint.

#include <string>
#include <vector>

#include "base/result.h"
#include "engine/llama/library.h"
#include "engine/llama/model_options.h"

namespace kvkeep::engine::llama {

// Puts all adapters that `options` name on the context; the model owns them from then on. Returns one line per adapter
// with a hash of its contents and its strength. Errors: kNotFound, kInvalid (not an adapter of this model).
Result<std::vector<std::string>> apply_adapters(const ModelOptions& options, llama_model& model,
                                                llama_context& context);

}  // namespace kvkeep::engine::llama
