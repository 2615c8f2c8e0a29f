#pragma once

// A model's weights in memory, with the options that were chosen for them and the machine. Contexts are made of it: one
// for conversations (llama_engine.h), one for embeddings (llama_embedder.h).

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "engine/llama/library.h"
#include "engine/llama/model_file.h"
#include "engine/llama/model_options.h"
#include "engine/llama/model_params.h"
#include "engine/llama/thread_pools.h"

namespace kvkeep::engine::llama {

// Called with 0 .. 1 while the model loads; returning false stops the load.
using LoadProgress = std::function<bool(float)>;

struct Weights {
  ModelHandle model;
  ModelOptions options;          // with the context's length and the layers on devices, which may have been left open
  bool context_is_given = true;  // the length was not left open
  ModelShape shape;
  ModelParams params;
  std::shared_ptr<ThreadPools> pools = {};  // null: the library's own
};

// Takes as long as reading the file. Errors are one line that says what to change: kNotFound (no such file), kDamaged
// (truncated, not GGUF), kUnsupported (unknown architecture, no vocabulary), kInvalid (an option), kNoSpace (memory),
// kAborted (`progress` returned false).
Result<Weights> load_weights(const ModelOptions& given, const LoadProgress& progress);

// Returns false for a model that only embeds: its contexts remember no earlier tokens. Makes a small context to find
// out.
Result<bool> can_generate(const Weights& weights);

// kNoSpace if libllama cannot allocate it, kInvalid if it does not like the parameters.
Result<ContextHandle> make_context(const llama_context_params& params, llama_model& model);

// The LoRA adapters of a context; the model owns them.
struct Loras {
  std::vector<llama_adapter_lora*> handles;
  std::vector<LoraAdapter> adapters;
  std::vector<std::string> names;  // a line each, with a hash of the contents and the scale
};

// Puts all LoRA adapters that `options` name on the context. Errors: kNotFound, kInvalid (not an adapter of this
// model), kUnsupported.
Result<Loras> apply_loras(const ModelOptions& options, llama_model& model, llama_context& context);
AdapterScales scales_of(const std::vector<LoraAdapter>& adapters);
// Returns false if libllama does not accept the adapters together.
bool set_scales(llama_context& context, std::vector<llama_adapter_lora*>& adapters, AdapterScales scales);

// The sum of all control vectors that are given, for the layers from the first to the last.
struct ControlVectors {
  std::vector<std::string> names;  // a line each, with a hash of the contents and the strength
  std::vector<float> sum;
  std::int32_t embedding_size = 0;
  std::int32_t first = 0;
  std::int32_t last = 0;
};

// Returns nullopt if `options` name none. Errors as apply_loras.
Result<std::optional<ControlVectors>> read_control_vectors(const ModelOptions& options, llama_model& model);
// kInvalid if libllama does not accept them.
Status set_control_vectors(llama_context& context, const ControlVectors& vectors);

// Returns the facts that need no sequence: all but the memory class and the fingerprint.
Description describe(const Weights& weights, llama_context& context);

}  // namespace kvkeep::engine::llama
