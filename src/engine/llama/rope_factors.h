#pragma once

// Models with two sets of RoPE factors ("longrope"): libllama takes the long ones for all positions as soon as the
// context is longer than the original one of training, so that the size of the context changes every K row.

#include <cstdint>
#include <span>
#include <string>

#include "engine/llama/model_shape.h"

namespace kvkeep::engine::llama {

// "long" or "short": the factors of a context whose sequences have room for `sequence_tokens` (llama_n_ctx_seq).
// Empty: the model has no such factors. `kv_overrides`: as in ModelOptions; they may move the original context.
std::string rope_factors_in_use(const ModelShape& shape, std::span<const std::string> kv_overrides,
                                std::uint32_t sequence_tokens);

}  // namespace kvkeep::engine::llama
