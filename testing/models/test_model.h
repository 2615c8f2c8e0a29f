#pragma once

// For tests and benchmarks: a small random model made on first use, an engine on it, and prompts.

#include <string>
#include <vector>

#include "engine/llama/llama_engine.h"

namespace kvkeep::engine::llama {

inline constexpr SeqId kFirst{0};
inline constexpr SeqId kSecond{1};

// Returns the file of a tiny random llama model, made once per process.
const std::string& tiny_model_path();
// Returns a model of size "small", about 25 MB.
const std::string& small_model_path();

// Returns a tiny model of another architecture that `kvkeep model make` knows, made once per process. `window`: tokens
// that a windowed layer sees; 0: the architecture's default.
const std::string& tiny_model_path(const std::string& architecture, std::uint32_t window = 0);

// Returns the projector of such a model, made once per process.
const std::string& tiny_projector_path(const std::string& architecture, std::uint64_t seed = 1);

// Makes the tiny model with two sets of RoPE factors, which libllama chooses by the size of the context, at `path`.
// With `original_context_tokens` 0 the length of training is the original one.
void make_longrope_model(const std::string& path, std::uint32_t original_context_tokens);

// Options that load fast: 1,024 cells, one thread, no warm-up.
ModelOptions tiny_options(KvType kv_type = KvType::kF16);

// Loads the model, or ends the program with the reason.
std::unique_ptr<LlamaEngine> load_or_die(const ModelOptions& options);

// Returns `count` ordinary tokens; equal seeds give equal ones, prompts of different seeds differ from the start.
std::vector<TokenId> make_prompt(std::size_t count, std::uint32_t seed);

// Decodes tokens at the end of `seq` in batches of `batch_size`, with logits for the last one.
DecodeStatus prefill(LlamaEngine& engine, SeqId seq, TokenSpan tokens, std::size_t batch_size = 512);
// Returns the index of the last entry in the last batch of a prefill.
std::size_t last_index(std::size_t tokens, std::size_t batch_size = 512);

// Returns the likeliest `count` tokens, one after another, from the logits of entry `index` of the last decode on.
std::vector<TokenId> generate_greedily(LlamaEngine& engine, SeqId seq, std::size_t index, std::size_t count);

// Return rows, window rows of a range, and a point, each in a buffer of its own.
std::vector<std::byte> save(LlamaEngine& engine, SeqId seq, TokenRange range);
std::vector<std::byte> save_window(LlamaEngine& engine, SeqId seq, TokenRange range);
std::vector<std::byte> save_point(LlamaEngine& engine, SeqId seq);

inline TokenRange token_range(std::size_t begin, std::size_t end) {
  return {Position{static_cast<std::uint32_t>(begin)}, Position{static_cast<std::uint32_t>(end)}};
}

}  // namespace kvkeep::engine::llama
