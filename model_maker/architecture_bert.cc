// An encoder: each token sees all tokens of its text, positions are vectors of their own, blocks are normalized after
// their results are added. It embeds texts; with a classifier it scores pairs of texts.

#include "model_maker/architecture.h"

namespace kvkeep::gguf {
namespace {

constexpr std::int64_t kBertContext = 512;
constexpr std::int64_t kBertTokenTypes = 2;
constexpr std::uint32_t kMeanPooling = 1;
constexpr std::uint32_t kRankPooling = 4;

// Gains by which vectors of different texts differ about as those of trained models do: sharper attention would let
// single tokens decide, a small one would make all texts alike.
constexpr float kBertScore = 1.5F;
constexpr float kBertBlock = 1;
constexpr float kBertUp = 2;
constexpr float kBertPositions = 0.3F;
constexpr float kBertTypes = 0.1F;

std::int64_t bert_layers(ModelSize size) {
  switch (size) {
    case ModelSize::kTiny: return 3;
    case ModelSize::kSmall: return 6;
    case ModelSize::kReal: return 16;
  }
  return 0;
}

void add_bert_keys(PlanBuilder& plan, const PlanRequest& request, std::int64_t layers) {
  plan.number("context_length", kBertContext);
  plan.number("embedding_length", plan.shape().width);
  plan.number("block_count", layers);
  plan.number("feed_forward_length", plan.shape().hidden);
  plan.number("attention.head_count", plan.shape().heads);
  plan.key("attention.layer_norm_epsilon", kNormEpsilon);
  plan.key("attention.causal", false);
  plan.key("pooling_type", request.rerank ? kRankPooling : kMeanPooling);
  plan.number("vocab_size", request.vocabulary_size);
}

void add_bias(PlanBuilder& plan, std::string_view name, std::int64_t size) {
  plan.values(std::string(name) + ".bias", {size}, Constant{0});
}

void add_biased(PlanBuilder& plan, std::string_view name, std::int64_t from, std::int64_t to, float factor) {
  plan.matrix(name, from, to, factor);
  add_bias(plan, name, to);
}

void add_bert_norm(PlanBuilder& plan, std::string_view name) {
  plan.norm(name, plan.shape().width);
  add_bias(plan, name, plan.shape().width);
}

void add_bert_layer(PlanBuilder& plan, std::int64_t layer) {
  const std::int64_t width = plan.shape().width;
  plan.begin_layer(layer);
  add_biased(plan, "attn_q", width, width, kBertScore);
  add_biased(plan, "attn_k", width, width, kBertScore);
  add_biased(plan, "attn_v", width, width, kBertBlock);
  add_biased(plan, "attn_output", width, width, kBertBlock);
  add_bert_norm(plan, "attn_output_norm");
  add_biased(plan, "ffn_up", width, plan.shape().hidden, kBertUp);
  add_biased(plan, "ffn_down", plan.shape().hidden, width, kBertBlock);
  add_bert_norm(plan, "layer_output_norm");
}

void add_classifier(PlanBuilder& plan) {
  const std::int64_t width = plan.shape().width;
  add_biased(plan, "cls", width, width, kBertBlock);
  add_biased(plan, "cls.output", width, 1, kBertUp);
}

}  // namespace

ModelPlan plan_bert(const PlanRequest& request) {
  const std::int64_t layers = bert_layers(request.size);
  PlanBuilder plan(request.architecture, shape_of(request.size));
  const std::int64_t width = plan.shape().width;
  add_bert_keys(plan, request, layers);
  plan.token_embedding(request.vocabulary_size, 1);
  plan.values("position_embd.weight", {width, kBertContext}, Spread{kBertPositions});
  plan.values("token_types.weight", {width, kBertTokenTypes}, Spread{kBertTypes});
  add_bert_norm(plan, "token_embd_norm");
  for (std::int64_t layer = 0; layer < layers; ++layer) add_bert_layer(plan, layer);
  plan.end_layers();
  if (request.rerank) add_classifier(plan);
  return plan.take();
}

}  // namespace kvkeep::gguf
