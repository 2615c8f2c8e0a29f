#include "model_maker/architecture.h"

// A DeepSeek V4: recent keys in a window, older ones compressed (every 4 or every 128 tokens into one), of which an
// indexer picks some; a mixture of experts; several residual streams mixed by learnt weights. Its state cannot be cut.

namespace kvkeep::gguf {
namespace {

constexpr std::int64_t kStreams = 4;                        // libllama accepts no other number
constexpr std::int64_t kMixes = (2 + kStreams) * kStreams;  // weights in, out and between streams
constexpr std::int64_t kRopeSize = kHeadSize / 2;           // the other half has no position
constexpr std::int64_t kOutputGroups = 2;                   // of heads; each group has its own projection
constexpr std::int64_t kOutputRank = 64;                    // per group
constexpr std::int64_t kExperts = 4;
constexpr std::int64_t kExpertsUsed = 2;
// Size of an indexer's keys. libllama 0.7.0 divides by 0 if it is the size of a head.
constexpr std::int64_t kIndexerSize = 128;
constexpr std::int64_t kPickedKeys = 64;            // among the keys made of 4 tokens each
constexpr std::uint32_t kSquareRootOfSoftplus = 4;  // how experts are scored; libllama accepts no other
constexpr float kNoClamp = 1e6F;

std::int64_t layers_of(ModelSize size) { return size == ModelSize::kTiny ? 4 : size == ModelSize::kSmall ? 5 : 12; }
std::int64_t query_rank(const Shape& shape) { return shape.width / 2; }
std::int64_t expert_size(const Shape& shape) { return shape.hidden / kExperts; }

// Tokens per compressed key, chosen so that every model has all three kinds of layers.
std::uint32_t ratio_of(std::int64_t layer) {
  if (layer == 0) return 0;
  return layer % 2 == 1 ? 4 : 128;
}

void add_keys(PlanBuilder& plan, const PlanRequest& request, std::int64_t layers) {
  const Shape& shape = plan.shape();
  plan.common_keys(layers, std::uint32_t{1}, request.vocabulary_size, kRopeSize);
  plan.number("attention.key_length", kHeadSize);
  plan.number("attention.value_length", kHeadSize);
  plan.number("attention.q_lora_rank", query_rank(shape));
  plan.number("attention.output_group_count", kOutputGroups);
  plan.number("attention.output_lora_rank", kOutputRank);
  plan.number("attention.sliding_window", request.window);
  plan.number("attention.indexer.head_count", shape.heads);
  plan.number("attention.indexer.key_length", kIndexerSize);
  plan.number("attention.indexer.top_k", kPickedKeys);
  plan.key("attention.compress_rope_freq_base", kRopeBase);
  std::vector<std::uint32_t> ratios;
  for (std::int64_t layer = 0; layer < layers; ++layer) ratios.push_back(ratio_of(layer));
  plan.key("attention.compress_ratios", std::move(ratios));
  plan.number("expert_count", kExperts);
  plan.number("expert_used_count", kExpertsUsed);
  plan.number("expert_shared_count", 1);
  plan.number("expert_feed_forward_length", expert_size(shape));
  plan.number("expert_gating_func", kSquareRootOfSoftplus);
  plan.key("expert_weights_scale", 1.0F);
  plan.key("expert_weights_norm", true);
  plan.key("swiglu_clamp_exp", kNoClamp);
  plan.number("hash_layer_count", 0);
  plan.number("hyper_connection.count", kStreams);
  plan.number("hyper_connection.sinkhorn_iterations", 4);
  plan.key("hyper_connection.epsilon", kNormEpsilon);
}

void add_attention(PlanBuilder& plan) {
  const Shape& shape = plan.shape();
  const std::int64_t query = shape.heads * kHeadSize;
  plan.norm("attn_norm", shape.width);
  plan.norm("attn_sinks", shape.heads, -4);  // the share of attention that goes nowhere; small
  plan.matrix("attn_q_a", shape.width, query_rank(shape), 1);
  plan.norm("attn_q_a_norm", query_rank(shape));
  plan.matrix("attn_q_b", query_rank(shape), query, 1);
  plan.matrix("attn_kv", shape.width, kHeadSize, 1);
  // Keys are also values, and queries have length 1: this norm's weights are the gain of both.
  plan.norm("attn_kv_a_norm", kHeadSize, shape.gains.score * shape.gains.score);
  plan.matrix("attn_output_a", query / kOutputGroups, kOutputGroups * kOutputRank, 1);
  plan.matrix("attn_output_b", kOutputGroups * kOutputRank, shape.width, 1);
}

// A key of several tokens is a mean, weighted by a gate and by each token's place. Keys of 4 tokens overlap.
void add_compressor(PlanBuilder& plan, const std::string& name, std::uint32_t ratio, std::int64_t key_size,
                    float norm) {
  const std::int64_t size = (ratio == 4 ? 2 : 1) * key_size;
  plan.matrix(name + "_kv", plan.shape().width, size, 1);
  plan.matrix(name + "_gate", plan.shape().width, size, plan.shape().gains.score);
  plan.values(name + "_ape.weight", {size, ratio}, Spread{1});
  plan.norm(name + "_norm", key_size, norm);
}

void add_compressed_attention(PlanBuilder& plan, std::uint32_t ratio) {
  const Shape& shape = plan.shape();
  if (ratio == 0) return;
  add_compressor(plan, "attn_compressor", ratio, kHeadSize, shape.gains.score * shape.gains.score);
  if (ratio != 4) return;
  plan.matrix("indexer.proj", shape.width, shape.heads, 1);
  plan.matrix("indexer.attn_q_b", query_rank(shape), shape.heads * kIndexerSize, 1);
  add_compressor(plan, "indexer_compressor", ratio, kIndexerSize, 1);
}

// Weights by which a block reads from the residual streams and writes to them.
void add_streams(PlanBuilder& plan, const std::string& name) {
  const std::int64_t from = kStreams * plan.shape().width;
  plan.values(name + "_fn.weight", {from, kMixes}, gain(1, from));
  plan.values(name + "_base.weight", {kMixes}, Spread{1});
  plan.norm(name + "_scale", 3);
}

void add_experts(PlanBuilder& plan) {
  const Shape& shape = plan.shape();
  const std::int64_t size = expert_size(shape);
  const float in = shape.gains.gate_and_up;
  plan.norm("ffn_norm", shape.width);
  plan.matrix("ffn_gate_inp", shape.width, kExperts, 1);
  plan.values("exp_probs_b.bias", {kExperts}, Constant{0});
  plan.experts("ffn_gate_exps", shape.width, size, kExperts, in);
  plan.experts("ffn_up_exps", shape.width, size, kExperts, in);
  plan.experts("ffn_down_exps", size, shape.width, kExperts, shape.gains.down);
  plan.matrix("ffn_gate_shexp", shape.width, size, in);
  plan.matrix("ffn_up_shexp", shape.width, size, in);
  plan.matrix("ffn_down_shexp", size, shape.width, shape.gains.down);
}

}  // namespace

ModelPlan plan_deepseek4(const PlanRequest& request) {
  const std::int64_t layers = layers_of(request.size);
  PlanBuilder plan(request.architecture, shape_of(request.size));
  add_keys(plan, request, layers);
  plan.token_embedding(request.vocabulary_size, 1);
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    plan.begin_layer(layer);
    add_attention(plan);
    add_compressed_attention(plan, ratio_of(layer));
    add_streams(plan, "hc_attn");
    add_streams(plan, "hc_ffn");
    add_experts(plan);
  }
  plan.end_layers();
  const std::int64_t streams = kStreams * plan.shape().width;
  plan.values("output_hc_fn.weight", {streams, kStreams}, gain(1, streams));
  plan.values("output_hc_base.weight", {kStreams}, Constant{0});
  plan.norm("output_hc_scale", 1);
  plan.output(request.vocabulary_size, "output_norm");
  return plan.take();
}

}  // namespace kvkeep::gguf
