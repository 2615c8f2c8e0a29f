// Flags of `serve` about embeddings and reranking.

#include <utility>

#include "flag_values.h"
#include "serve_flags.h"
#include "server/api/embeddings.h"

namespace kvkeep::cli {
namespace {

Choices<std::optional<engine::Pooling>> poolings() { return {engine::kPoolings.begin(), engine::kPoolings.end()}; }

}  // namespace

std::vector<Flag> embedding_flags(EmbeddingOptions& embeddings) {
  return {
      {.group = "Embeddings",
       .spelling = "--embedding, --embeddings",
       .environment = "LLAMA_ARG_EMBEDDINGS",
       .effect =
           "Serve /v1/embeddings, in memory of its own next to the conversations'; a model that only embeds needs "
           "this flag.",
       .assign = switch_into(embeddings.enabled)},
      {.spelling = "--rerank, --reranking",
       .environment = "LLAMA_ARG_RERANKING",
       .effect = "Serve /v1/rerank with a reranking model; the same as --embeddings --pooling rank.",
       .assign = switch_into(embeddings.rank)},
      {.spelling = "--pooling none|mean|cls|last|rank",
       .environment = "LLAMA_ARG_POOLING",
       .default_text = "the model's own",
       .effect =
           "How the vectors of an input's tokens become one; none: they do not, and only /embeddings serves them.",
       .assign = choice_into(embeddings.pooling, poolings())},
      {.spelling = "--embd-normalize N",
       .default_text = "2",
       .effect =
           "How vectors are scaled, if a request does not say: -1 not, 0 the largest value to 32760, 1 the sum of "
           "sizes to 1, 2 the length to 1, above that by the N-norm.",
       .assign = number_into(embeddings.normalize, -1, server::api::kMostNormalize, -1)},
  };
}

Status check_embeddings(EmbeddingOptions& embeddings) {
  using engine::Pooling;
  if (embeddings.rank) {
    if (embeddings.pooling.value_or(Pooling::kRank) != Pooling::kRank) {
      return invalid("--rerank and --pooling contradict each other: leave out --pooling");
    }
    embeddings.enabled = true;
    embeddings.pooling = Pooling::kRank;
  }
  if (embeddings.enabled) return {};
  if (embeddings.pooling.value_or(Pooling::kNone) != Pooling::kNone) return invalid("--pooling needs --embeddings");
  if (embeddings.normalize) return invalid("--embd-normalize needs --embeddings");
  return {};
}

}  // namespace kvkeep::cli
