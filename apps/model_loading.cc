#include "model_loading.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <utility>

#include "engine/embedding_only.h"
#include "engine/llama/llama_embedder.h"
#include "engine/llama/llama_engine.h"
#include "engine/llama/llama_vocabulary.h"
#include "engine/media/projector.h"
#include "named_files.h"
#include "os/machine.h"
#include "os/process.h"
#include "weights_guard.h"

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

Status add_projector(const Weights& weights, const MediaOptions& media, const std::string& root, LoadedModel& loaded) {
  if (loaded.only_embeds) return invalid("--mmproj: this model computes embeddings and generates no text");
  const engine::llama::ModelOptions& model = weights.options;
  const engine::Description& text_model = loaded.engine->description();
  auto made = engine::media::load_projector(
      {.path = media.projector,
       .least_tokens = media.least_tokens,
       .most_tokens = media.most_tokens,
       .threads = static_cast<std::uint32_t>(
           model.threads_batch.value_or(model.threads.value_or(static_cast<int>(os::core_count())))),
       .use_gpu = media.offload,
       .device = media.device,
       .warmup = model.warmup,
       .identity = [&root](const std::string& path) -> Result<ModelHash> {
         TRY_ASSIGN(const SeenFiles seen, see_files(path));
         return hash_at_once(seen, root);
       },
       .most_at_once = std::min(text_model.tokens_at_once, text_model.batch_tokens)},
      weights.model);
  if (!made) return Error{made.error().kind, "--mmproj: " + made.error().message};
  TRY(engine::check_tokens_at_once((*made)->description(), text_model));
  loaded.projector = *std::move(made);
  const engine::ProjectorDescription& facts = loaded.projector->description();
  spdlog::info("the projector takes {}", !facts.sound ? "pictures" : facts.pictures ? "pictures and sound" : "sound");
  return {};
}

}  // namespace

Result<LoadedModel> load_model(const engine::llama::ModelOptions& model, const EmbeddingOptions& embeddings,
                               const MediaOptions& media, const std::string& root,
                               const engine::llama::LoadProgress& progress) {
  TRY_ASSIGN(const Weights weights, load_weights(model, progress));
  LoadedModel loaded;
  if (embeddings.enabled) {
    TRY_ASSIGN(const bool generates, can_generate(weights));
    loaded.only_embeds = !generates;
  }
  if (!loaded.only_embeds) TRY(add_engine(weights, loaded));
  if (embeddings.enabled) TRY(add_embedder(weights, embeddings.pooling, loaded));
  if (media.enabled && !media.projector.empty()) TRY(add_projector(weights, media, root, loaded));
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

namespace {

chat::MediaNames new_media_names() {
  chat::MediaNames::Key key{};
  os::fill_random(key);
  return chat::MediaNames(key);
}

// No text that was written before the server's start can have it.
std::string media_marker() {
  std::array<std::byte, 16> random{};
  os::fill_random(random);
  std::string marker = "<__media_";
  for (const std::byte each : random) marker += fmt::format("{:02x}", std::to_integer<unsigned>(each));
  return marker + "__>";
}

}  // namespace

std::optional<server::api::MediaRules> media_rules(const LoadedModel& loaded, const ServeOptions& options,
                                                   const std::string& directory) {
  if (loaded.projector == nullptr) return std::nullopt;
  const engine::ProjectorDescription& facts = loaded.projector->description();
  const MediaOptions& media = options.media;
  server::api::MediaRules rules;
  rules.key = {.model = loaded.engine->description().fingerprint,
               .projector = facts.identity,
               .least_tokens = media.least_tokens,
               .most_tokens = media.most_tokens,
               .device = options.shared.across_devices ? std::string() : facts.device};
  rules.marker = media.marker.empty() ? media_marker() : media.marker;
  rules.new_names = new_media_names;
  rules.pictures = facts.pictures;
  rules.sound = facts.sound;
  if (!directory.empty()) {
    rules.read_file = [directory](std::string_view path) { return read_media_file(directory, path); };
  }
  if (!media.remote_hosts.empty()) {
    rules.fetch = [remote = server::RemoteRules{.hosts = media.remote_hosts, .most_bytes = kMostMediaBytes}](
                      const std::string& url, const server::api::FetchTerms& terms) {
      server::RemoteRules rest = remote;
      rest.longest_ms = std::min(rest.longest_ms, static_cast<long>(terms.longest_ms));
      return server::fetch_remote(url, rest, terms.gone);
    };
  }
  return rules;
}

}  // namespace kvkeep::cli
