#pragma once

// From the options of `serve` to the parts that compute: an engine for conversations, and an embedder where one is
// asked for. Call it on the engine thread: the first batches are computed here.
//
// Both have one model's weights in common, and a context each: the engine's has the cells of --ctx-size, the embedder's
// those of one input. The engine is made first, so that an embedder that no longer fits is an error at the start, not
// an end for lack of memory while chats run.

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/vocabulary.h"
#include "engine/embedder.h"
#include "engine/engine.h"
#include "engine/llama/weights.h"
#include "engine/projector.h"
#include "serve_options.h"
#include "server/api/media_parts.h"

namespace kvkeep::cli {

struct LoadedModel {
  std::unique_ptr<engine::Engine> engine;  // generates nothing if the model only embeds
  std::shared_ptr<const Vocabulary> vocabulary;
  std::unique_ptr<engine::Embedder> embedder;    // null: nothing is to be embedded
  std::unique_ptr<engine::Projector> projector;  // null: the model takes text only
  bool only_embeds = false;
};

// `model`: options.model with everything that depends on files. Errors as load_weights(), LlamaEngine::make(),
// LlamaEmbedder::make() and load_projector(); kInvalid if batches are too small for the projector's pictures.
// `root`: of the cache, where the projector's hash is kept; "": nowhere.
Result<LoadedModel> load_model(const engine::llama::ModelOptions& model, const EmbeddingOptions& embeddings,
                               const MediaOptions& media, const std::string& root,
                               const engine::llama::LoadProgress& progress);

// Returns how requests may name pictures and sounds; nullopt if the model takes text only. `directory`: of
// media_directory().
std::optional<server::api::MediaRules> media_rules(const LoadedModel& loaded, const ServeOptions& options,
                                                   const std::string& directory);

// Logs what the model embeds, if it does.
void log_embedder(const LoadedModel& loaded, const EmbeddingOptions& asked);

}  // namespace kvkeep::cli
