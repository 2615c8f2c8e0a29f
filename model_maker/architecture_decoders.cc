// Decoders whose layers are a block that looks back (attention or a recurrent one) and a feed-forward block. The table
// has their differences; the rest is the same for all.

#include <algorithm>
#include <array>

#include "base/assert.h"
#include "model_maker/architecture.h"

namespace kvkeep::gguf {
namespace {

// ---- the recurrent parts of a layer: all that they know of earlier tokens is a state of constant size ----
//
// Their decays are set so that states remember for hundreds to thousands of tokens: a wrong state must change the text,
// even long after the token that made it wrong.

// Each pair of functions adds keys "ssm.*" and the tensors of one layer, without the layer's norm.

constexpr std::int64_t kKernel = 4;       // inputs that a convolution mixes
constexpr std::int64_t kMambaState = 16;  // values per channel
constexpr std::int64_t kMamba2State = 64;
constexpr std::int64_t kShortKernel = 3;

// A time step is softplus(bias + projection); per token a state keeps exp(-step * rate) of itself. With these values it
// keeps most for hundreds of tokens.
constexpr Between kStepBias{-6, -3};
constexpr Between kRate{-0.1F, -0.002F};
constexpr float kSkip = 0.25F;  // the part of an input that bypasses the state

// Gains of projections into a block. If the output of a state is normalised, inputs are faint: SiLU of a large one is
// positive in the mean, states would add up these means, and the differences between tokens would be lost in them.
constexpr float kInput = 2;
constexpr float kFaintInput = 0.5F;
constexpr float kOutput = 4;

std::int64_t inner_size(const Shape& shape) { return 2 * shape.width; }  // libllama accepts no other for Mamba
std::int64_t time_step_rank(const Shape& shape) { return shape.width / 16; }
std::int64_t inner_heads(const Shape& shape) { return inner_size(shape) / kHeadSize; }

void add_keys(PlanBuilder& plan, std::int64_t state, std::int64_t time_step_rank) {
  plan.number("ssm.conv_kernel", kKernel);
  plan.number("ssm.inner_size", inner_size(plan.shape()));
  plan.number("ssm.state_size", state);
  plan.number("ssm.time_step_rank", time_step_rank);
}

// Keeps the length of independent inputs.
void add_convolution(PlanBuilder& plan, std::int64_t channels) {
  plan.values("ssm_conv1d.weight", {kKernel, channels}, gain(1, kKernel));
}

// Mamba: each channel has a state of its own. Tensors "ssm_*".
void add_mamba_keys(PlanBuilder& plan) { add_keys(plan, kMambaState, time_step_rank(plan.shape())); }

// `with_norms`: time steps and state inputs are normalised, as in Jamba.
void add_mamba(PlanBuilder& plan, bool with_norms) {
  const std::int64_t width = plan.shape().width;
  const std::int64_t inner = inner_size(plan.shape());
  const std::int64_t rank = time_step_rank(plan.shape());
  plan.matrix("ssm_in", width, 2 * inner, kInput);
  add_convolution(plan, inner);
  plan.values("ssm_conv1d.bias", {inner}, Constant{0});
  // What a state takes in is a product of three projections, and nothing bounds it without norms: in a long text it
  // would outgrow the numbers of Q8_0 blocks.
  plan.matrix("ssm_x", inner, rank + 2 * kMambaState, with_norms ? kInput : kFaintInput);
  if (with_norms) {
    plan.norm("ssm_dt_norm", rank);
    plan.norm("ssm_b_norm", kMambaState);
    plan.norm("ssm_c_norm", kMambaState);
  }
  plan.matrix("ssm_dt", rank, inner, 1);
  plan.values("ssm_dt.bias", {inner}, kStepBias);
  plan.values("ssm_a", {kMambaState, inner}, kRate);
  plan.values("ssm_d", {inner}, Constant{kSkip});
  plan.matrix("ssm_out", inner, width, kOutput);
}

// Mamba 2: heads of channels share decays.
void add_mamba2_keys(PlanBuilder& plan) {
  add_keys(plan, kMamba2State, inner_heads(plan.shape()));
  plan.number("ssm.group_count", 1);
}

void add_mamba2(PlanBuilder& plan) {
  const std::int64_t width = plan.shape().width;
  const std::int64_t inner = inner_size(plan.shape());
  const std::int64_t heads = inner_heads(plan.shape());
  const std::int64_t convolved = inner + 2 * kMamba2State;
  plan.matrix("ssm_in", width, inner + convolved + heads, kFaintInput);
  add_convolution(plan, convolved);
  plan.values("ssm_conv1d.bias", {convolved}, Constant{0});
  plan.values("ssm_dt.bias", {heads}, kStepBias);
  plan.values("ssm_a", {1, heads}, kRate);
  plan.values("ssm_d", {1, heads}, Constant{kSkip});
  plan.values("ssm_norm.weight", {inner, 1}, Constant{1});
  plan.matrix("ssm_out", inner, width, kOutput);
}

// Gated delta net: a matrix per head, written at a key, read at a query.
void add_delta_net_keys(PlanBuilder& plan) {
  add_keys(plan, kHeadSize, inner_heads(plan.shape()));
  plan.number("ssm.group_count", inner_heads(plan.shape()) / 2);
}

void add_delta_net(PlanBuilder& plan) {
  const std::int64_t width = plan.shape().width;
  const std::int64_t values = inner_size(plan.shape());
  const std::int64_t heads = inner_heads(plan.shape());
  const std::int64_t convolved = 2 * values;  // queries and keys have half as many heads as values
  plan.matrix("attn_qkv", width, convolved, kFaintInput);
  plan.matrix("attn_gate", width, values, kInput);
  add_convolution(plan, convolved);
  plan.values("ssm_dt.bias", {heads}, kStepBias);
  plan.values("ssm_a", {heads}, kRate);
  plan.matrix("ssm_beta", width, heads, 1);
  plan.matrix("ssm_alpha", width, heads, 1);
  plan.norm("ssm_norm", kHeadSize);
  plan.matrix("ssm_out", values, width, kOutput);
}

// Short convolution: the state is the last two inputs.
void add_short_convolution_keys(PlanBuilder& plan) { plan.number("shortconv.l_cache", kShortKernel); }

void add_short_convolution(PlanBuilder& plan) {
  const std::int64_t width = plan.shape().width;
  plan.matrix("shortconv.in_proj", width, 3 * width, 1);
  plan.values("shortconv.conv.weight", {kShortKernel, width}, gain(1, kShortKernel));
  plan.matrix("shortconv.out_proj", width, width, kOutput);
}

enum class Block { kAttention, kMamba, kJambaMamba, kMamba2, kDeltaNet, kShortConvolution };

struct Style {
  std::string_view name;
  // The block with which a layer looks back; every `attention_every`th layer (the last of each group) has attention. 1:
  // all have; 0: none has. falcon-h1 has both in each layer.
  Block recurrent = Block::kAttention;
  std::int64_t attention_every = 1;
  std::array<std::int64_t, 3> layers;  // by ModelSize
  bool feed_forward = true;
  bool head_norms = false;         // queries and keys are normalised: the norms' weights are the gain of scores
  bool gated_attention = false;    // the query matrix also makes a gate for the result
  bool norms_after = false;        // results of blocks are normalised: those norms' weights are the gain of blocks
  bool scaled_embedding = false;   // libllama multiplies embeddings by sqrt(width)
  bool layered_heads = false;      // head_count_kv is given per layer; 0 says that a layer is recurrent
  bool plane_positions = false;    // queries and keys turn by a token's time, row and column (M-RoPE)
  std::int64_t deep_pictures = 0;  // first layers whose results get an embedding of their own from a picture's tokens
  std::int64_t global_every = 0;   // in windowed models one layer of this many has full attention
  std::string_view second_norm = "ffn_norm.weight";
  std::string_view output_norm = "output_norm";
};

constexpr auto kStyles = std::to_array<Style>({
    {.name = "llama", .layers = {3, 6, 16}},
    {.name = "qwen3vl",
     .layers = {3, 6, 16},
     .head_norms = true,
     .plane_positions = true,
     .deep_pictures = kDeepPictures},
    {.name = "gemma3",
     .layers = {6, 6, 18},
     .head_norms = true,
     .norms_after = true,
     .scaled_embedding = true,
     .global_every = 3},
    {.name = "qwen35",
     .recurrent = Block::kDeltaNet,
     .attention_every = 4,
     .layers = {4, 4, 16},
     .head_norms = true,
     .gated_attention = true,
     .plane_positions = true,
     .second_norm = "post_attention_norm.weight"},
    {.name = "falcon-h1", .recurrent = Block::kMamba2, .layers = {3, 4, 12}, .second_norm = "ffn_norm"},
    {.name = "jamba",
     .recurrent = Block::kJambaMamba,
     .attention_every = 4,
     .layers = {4, 4, 12},
     .layered_heads = true},
    {.name = "lfm2",
     .recurrent = Block::kShortConvolution,
     .attention_every = 2,
     .layers = {6, 6, 16},
     .head_norms = true,
     .layered_heads = true,
     .output_norm = "token_embd_norm"},
    {.name = "mamba", .recurrent = Block::kMamba, .attention_every = 0, .layers = {4, 12, 24}, .feed_forward = false},
    {.name = "mamba2", .recurrent = Block::kMamba2, .attention_every = 0, .layers = {4, 12, 24}, .feed_forward = false},
});

constexpr float kBlockGain = 0.6F;  // for norms after blocks; with 1, rounding decides too often

const Style& style_of(std::string_view name) {
  const auto* const found = std::ranges::find(kStyles, name, &Style::name);
  KVKEEP_ASSERT(found != kStyles.end(), "every architecture planned here has a style");
  return *found;
}

bool has_attention(const Style& style, std::int64_t layer) {
  return style.attention_every != 0 && (layer + 1) % style.attention_every == 0;
}

void add_recurrent_keys(PlanBuilder& plan, const Style& style) {
  switch (style.recurrent) {
    case Block::kAttention: return;
    case Block::kMamba:
    case Block::kJambaMamba: return add_mamba_keys(plan);
    case Block::kMamba2: return add_mamba2_keys(plan);
    case Block::kDeltaNet: return add_delta_net_keys(plan);
    case Block::kShortConvolution: return add_short_convolution_keys(plan);
  }
}

void add_recurrent(PlanBuilder& plan, const Style& style) {
  switch (style.recurrent) {
    case Block::kAttention: return;
    case Block::kMamba: return add_mamba(plan, false);
    case Block::kJambaMamba: return add_mamba(plan, true);
    case Block::kMamba2: return add_mamba2(plan);
    case Block::kDeltaNet: return add_delta_net(plan);
    case Block::kShortConvolution: return add_short_convolution(plan);
  }
}

void add_attention(PlanBuilder& plan, const Style& style) {
  const Shape& shape = plan.shape();
  const std::int64_t query = shape.heads * kHeadSize;
  const std::int64_t kv = shape.kv_heads * kHeadSize;
  const float score = style.head_norms ? 1 : shape.gains.score;
  plan.matrix("attn_q", shape.width, style.gated_attention ? 2 * query : query, score);
  plan.matrix("attn_k", shape.width, kv, score);
  plan.matrix("attn_v", shape.width, kv, 1);
  plan.matrix("attn_output", query, shape.width, shape.gains.attention);
  if (!style.head_norms) return;
  plan.norm("attn_q_norm", kHeadSize, shape.gains.score);
  plan.norm("attn_k_norm", kHeadSize, shape.gains.score);
}

void add_feed_forward(PlanBuilder& plan) {
  const Shape& shape = plan.shape();
  plan.matrix("ffn_gate", shape.width, shape.hidden, shape.gains.gate_and_up);
  plan.matrix("ffn_up", shape.width, shape.hidden, shape.gains.gate_and_up);
  plan.matrix("ffn_down", shape.hidden, shape.width, shape.gains.down);
}

void add_layer(PlanBuilder& plan, const Style& style, std::int64_t layer) {
  const Shape& shape = plan.shape();
  const bool attends = has_attention(style, layer);
  plan.begin_layer(layer);
  plan.norm("attn_norm", shape.width);
  if (attends) add_attention(plan, style);
  if (!attends || style.attention_every == 1) add_recurrent(plan, style);
  if (style.norms_after) plan.norm("post_attention_norm", shape.width, kBlockGain);
  if (!style.feed_forward) return;
  plan.values(style.second_norm, {shape.width}, Constant{1});
  add_feed_forward(plan);
  if (style.norms_after) plan.norm("post_ffw_norm", shape.width, kBlockGain);
}

MetadataValue kv_heads_of(const Style& style, std::int64_t layers, const Shape& shape) {
  const auto kv_heads = static_cast<std::uint32_t>(shape.kv_heads);
  if (!style.layered_heads) return kv_heads;
  std::vector<std::uint32_t> by_layer;
  for (std::int64_t layer = 0; layer < layers; ++layer) by_layer.push_back(has_attention(style, layer) ? kv_heads : 0);
  return by_layer;
}

void add_attention_keys(PlanBuilder& plan, const Style& style, std::uint32_t window) {
  if (style.gated_attention) plan.number("full_attention_interval", style.attention_every);
  if (style.plane_positions) {
    plan.key("rope.dimension_sections", std::vector<std::uint32_t>{11, 11, 10, 0});  // half a head in all
  }
  if (style.deep_pictures != 0) plan.number("n_deepstack_layers", style.deep_pictures);
  if (window != 0) plan.number("attention.sliding_window", window);
  if (style.global_every != 0) plan.number("attention.sliding_window_pattern", style.global_every);
}

}  // namespace

ModelPlan plan_decoder(const PlanRequest& request) {
  const Style& style = style_of(request.architecture);
  const std::int64_t layers = style.layers[static_cast<std::size_t>(request.size)];
  PlanBuilder plan(request.architecture, shape_of(request.size));
  plan.common_keys(layers, kv_heads_of(style, layers, plan.shape()), request.vocabulary_size);
  add_attention_keys(plan, style, request.window);
  add_recurrent_keys(plan, style);
  plan.token_embedding(request.vocabulary_size, style.scaled_embedding ? gain(1, plan.shape().width).deviation : 1);
  for (std::int64_t layer = 0; layer < layers; ++layer) add_layer(plan, style, layer);
  plan.end_layers();
  plan.output(request.vocabulary_size, style.output_norm);
  return plan.take();
}

}  // namespace kvkeep::gguf
