#include <cmath>

#include "engine/gguf/architecture.h"

// A llama: full attention with grouped heads, SwiGLU. Sliceable: any position is restorable from its rows.

namespace kvkeep::gguf {
namespace {

// Chosen by trial so that greedy text depends on every earlier token (one token changed 500 positions back changes the
// next 16 in nearly all cases) and does not run in circles, yet rounding does not decide it.
struct Gains {
  // Query and key each; attention scores have the square as deviation. Large: attention is sharp, and a small change of
  // its input moves it elsewhere, which is what carries a far-away token's influence on.
  float score;
  float attention;  // makes up for the averaging over the context
  float gate_and_up;
  float down;
};

struct Shape {
  std::int64_t layers;
  std::int64_t width;
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t hidden;
  ggml_type matrix_type;
  Gains gains;  // smaller for deeper models: every layer amplifies differences
};

constexpr std::int64_t kHeadSize = 64;   // a multiple of 32, so that KV rows may be q8_0
constexpr float kRopeBase = 10000.0F;    // low: many dimensions turn within a few tokens, so no step repeats another
constexpr float kLogitDeviation = 4.0F;  // at temperature 1 the zero rows together have a chance of about 1e-3

Shape shape_of(ModelSize size) {
  switch (size) {
    case ModelSize::kTiny: return {3, 128, 2, 1, 256, GGML_TYPE_F16, {2.0F, 4.0F, 2.0F, 2.0F}};
    case ModelSize::kSmall: return {6, 512, 8, 4, 1536, GGML_TYPE_Q8_0, {1.75F, 4.0F, 1.5F, 1.5F}};
    case ModelSize::kReal: return {16, 1024, 16, 4, 3072, GGML_TYPE_Q8_0, {1.75F, 2.0F, 1.5F, 0.75F}};
  }
  return {};
}

Spread gain(float factor, std::int64_t row_length) { return {factor / std::sqrt(static_cast<float>(row_length))}; }

void add_layer(std::vector<TensorPlan>& tensors, std::int64_t layer, const Shape& shape) {
  const std::string prefix = "blk." + std::to_string(layer) + ".";
  const std::int64_t width = shape.width;
  const Gains& gains = shape.gains;
  const std::int64_t query = shape.heads * kHeadSize;
  const std::int64_t kv = shape.kv_heads * kHeadSize;
  const auto matrix = [&](const char* name, std::int64_t from, std::int64_t to, float factor) {
    tensors.push_back({prefix + name + ".weight", shape.matrix_type, {from, to}, gain(factor, from)});
  };
  tensors.push_back({prefix + "attn_norm.weight", GGML_TYPE_F32, {width}, Constant{1}});
  matrix("attn_q", width, query, gains.score);
  matrix("attn_k", width, kv, gains.score);
  matrix("attn_v", width, kv, 1);
  matrix("attn_output", query, width, gains.attention);
  tensors.push_back({prefix + "ffn_norm.weight", GGML_TYPE_F32, {width}, Constant{1}});
  matrix("ffn_gate", width, shape.hidden, gains.gate_and_up);
  matrix("ffn_up", width, shape.hidden, gains.gate_and_up);
  matrix("ffn_down", shape.hidden, width, gains.down);
}

}  // namespace

ModelPlan plan_llama(ModelSize size, std::int64_t vocabulary_size) {
  const Shape shape = shape_of(size);
  const auto number = [](std::int64_t value) { return static_cast<std::uint32_t>(value); };
  ModelPlan plan;
  plan.metadata = {
      {"llama.context_length", std::uint32_t{131072}},
      {"llama.embedding_length", number(shape.width)},
      {"llama.block_count", number(shape.layers)},
      {"llama.feed_forward_length", number(shape.hidden)},
      {"llama.attention.head_count", number(shape.heads)},
      {"llama.attention.head_count_kv", number(shape.kv_heads)},
      {"llama.attention.layer_norm_rms_epsilon", 1e-6F},
      {"llama.rope.dimension_count", number(kHeadSize)},
      {"llama.rope.freq_base", kRopeBase},
      {"llama.vocab_size", number(vocabulary_size)},
  };
  const std::int64_t width = shape.width;
  plan.tensors.push_back({"token_embd.weight", GGML_TYPE_Q8_0, {width, vocabulary_size}, Spread{1}});
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) add_layer(plan.tensors, layer, shape);
  plan.tensors.push_back({"output_norm.weight", GGML_TYPE_F32, {width}, Constant{1}});
  plan.tensors.push_back(
      {"output.weight", GGML_TYPE_Q8_0, {width, vocabulary_size}, OutputRows{gain(kLogitDeviation, width).deviation}});
  return plan;
}

}  // namespace kvkeep::gguf
