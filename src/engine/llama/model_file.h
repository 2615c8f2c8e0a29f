#pragma once

// Reads model files (GGUF) without loading them: their metadata, their bytes for hashing, and the sizes that decide how
// much of a model fits where.

#include <ggml.h>
#include <gguf.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/llama/model_options.h"
#include "os/file_system.h"

namespace kvkeep::engine::llama {

struct GgufDeleter {
  void operator()(gguf_context* file) const { gguf_free(file); }
};
using GgufHandle = std::unique_ptr<gguf_context, GgufDeleter>;

// Reads metadata and tensor directory, no weights. Errors: kNotFound, kDamaged (not a GGUF file), one line each.
Result<GgufHandle> open_gguf(const std::string& path);

// Returns an unsigned number of any width, or element `index` of an array; nullopt if there is no such number.
std::optional<std::uint64_t> gguf_number(const gguf_context& file, const std::string& key, std::size_t index = 0);
// Opens a file that may be reached through links.
Result<std::unique_ptr<os::File>> open_linked(const std::string& path);
// Returns "" if there is no such key, or it is no string.
std::string gguf_text(const gguf_context& file, const std::string& key);

// Sizes of a model, read from its metadata without loading it: they decide how much of it fits where.
struct ModelShape {
  std::string architecture;
  std::uint32_t context_train_tokens = 0;
  std::optional<std::uint32_t> context_original_tokens;  // before the context was stretched; empty: as trained
  bool has_rope_factors = false;                         // long and short ones: see rope_factors_in_use()
  bool has_classifier = false;                           // a reranking model's head
  std::vector<std::uint64_t> layer_bytes;                // weights of each layer
  std::uint64_t output_bytes = 0;                        // weights after the last layer
  std::vector<std::uint64_t> k_elements;                 // per layer: values of one token's K row; 0: no attention
  std::vector<std::uint64_t> v_elements;                 // 0 also where V is derived from K (MLA)

  // Bytes of KV memory of layer `layer` for `tokens` tokens.
  std::uint64_t kv_bytes(std::size_t layer, std::uint64_t tokens, ggml_type type_k, ggml_type type_v) const;
  std::uint64_t kv_bytes(std::uint64_t tokens, ggml_type type_k, ggml_type type_v) const;
};

// Reads the file (of a split model: all its files). Errors: kNotFound, kDamaged (not a GGUF file, or one for which
// libllama would end the process: no layers, two tokens of one spelling).
Result<ModelShape> read_model_shape(const std::string& path);

// Models with two sets of RoPE factors ("longrope"): libllama takes the long ones for all positions as soon as the
// context is longer than the original one of training, so that the size of the context changes every K row. Returns
// "long" or "short", for a context whose sequences have room for `sequence_tokens` (llama_n_ctx_seq), or "" if the
// model has no such factors. `kv_overrides` (see ModelOptions) may change the original context.
std::string rope_factors_in_use(const ModelShape& shape, std::span<const MetadataOverride> kv_overrides,
                                std::uint32_t sequence_tokens);

}  // namespace kvkeep::engine::llama
