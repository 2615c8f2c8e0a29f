#include "model_loading.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/embedding_only.h"
#include "engine/llama/llama_embedder.h"
#include "engine/llama/llama_engine.h"
#include "engine/llama/llama_vocabulary.h"

namespace kvkeep::cli {
namespace {

using engine::llama::LlamaEmbedder;
using engine::llama::LlamaEngine;
using engine::llama::LlamaVocabulary;
using engine::llama::Weights;

Status add_engine(const Weights& weights, LoadedModel& loaded) {
  TRY_ASSIGN(auto engine, LlamaEngine::make(weights));
  loaded.vocabulary = engine->vocabulary();
  loaded.engine = std::move(engine);
  return {};
}

Status add_embedder(const Weights& weights, std::optional<engine::Pooling> pooling, LoadedModel& loaded) {
  TRY_ASSIGN(auto embedder, LlamaEmbedder::make(weights, pooling));
  if (loaded.only_embeds) {
    engine::Description description = describe(weights, embedder->context());
    description.context_tokens = static_cast<std::uint32_t>(embedder->description().longest_input);
    loaded.engine = std::make_unique<engine::EmbeddingOnlyEngine>(std::move(description));
    TRY_ASSIGN(loaded.vocabulary, LlamaVocabulary::make(weights.model, weights.options.path));
  }
  loaded.embedder = std::move(embedder);
  return {};
}

}  // namespace

Result<LoadedModel> load_model(const engine::llama::ModelOptions& model, const EmbeddingOptions& embeddings,
                               const engine::llama::LoadProgress& progress) {
  TRY_ASSIGN(const Weights weights, load_weights(model, progress));
  LoadedModel loaded;
  if (embeddings.enabled) {
    TRY_ASSIGN(const bool generates, can_generate(weights));
    loaded.only_embeds = !generates;
  }
  if (!loaded.only_embeds) TRY(add_engine(weights, loaded));
  if (embeddings.enabled) TRY(add_embedder(weights, embeddings.pooling, loaded));
  return loaded;
}

void log_embedder(const LoadedModel& loaded, const EmbeddingOptions& asked) {
  if (loaded.embedder == nullptr) return;
  const engine::EmbedderDescription& facts = loaded.embedder->description();
  const auto* const pooling =
      std::ranges::find(engine::kPoolings, facts.pooling, &std::pair<std::string_view, engine::Pooling>::second);
  if (loaded.only_embeds) {
    const engine::Description& model = loaded.engine->description();
    spdlog::info("loaded {} ({}), which embeds and generates no text", model.model_name, model.summary);
    spdlog::info("computes on {}", model.devices);
  }
  if (facts.pooling == engine::Pooling::kRank) {
    spdlog::info("reranking: a query and a document of at most {} tokens together", facts.longest_input);
    return;
  }
  if (facts.pooling == engine::Pooling::kNone && !asked.pooling) {
    spdlog::warn(
        "embeddings: the model's file names no pooling, so only /embeddings answers, with a vector per token: for "
        "/v1/embeddings start with --pooling mean or last, as the model's card says");
  }
  spdlog::info("embeddings: inputs of at most {} tokens, {} values each, pooling {}", facts.longest_input,
               facts.vector_size, pooling->first);
}

}  // namespace kvkeep::cli
