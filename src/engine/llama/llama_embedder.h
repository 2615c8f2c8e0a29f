#pragma once

// The embedder on libllama: a context of its own on the model's weights, with one sequence. An input's tokens are
// computed in one ubatch, because libllama pools within one; only the last token's vector of a model with memory needs
// no pooling, so that such inputs are computed in slices and may be as long as the context.

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "engine/embedder.h"
#include "engine/llama/weights.h"

namespace kvkeep::engine::llama {

// Inputs of models that embed by the last token may be this long, if no length of the context was given.
inline constexpr std::uint32_t kLongestSlicedInput = 8192;

class LlamaEmbedder final : public Embedder {
 public:
  // `pooling`: empty for the model's own. Errors: kUnsupported (the model cannot do that), kNoSpace (memory), kInvalid.
  static Result<std::unique_ptr<LlamaEmbedder>> make(const Weights& weights, std::optional<Pooling> pooling);

  // Returns the library's own context, for the description of a model that only embeds.
  llama_context& context() { return *context_; }

  const EmbedderDescription& description() const override { return description_; }
  Result<std::vector<float>> compute(TokenSpan run, Position at, bool last) override;
  void cancel() override { cancelled_ = true; }

 private:
  LlamaEmbedder(const Weights& weights, ContextHandle context, EmbedderDescription description);
  Status decode(TokenSpan run, Position at);
  Result<std::vector<float>> values(std::size_t tokens) const;

  std::atomic<bool> cancelled_ = false;
  ModelHandle model_;
  std::shared_ptr<ThreadPools> pools_;  // null: the library's own
  ContextHandle context_;
  EmbedderDescription description_;
};

}  // namespace kvkeep::engine::llama
