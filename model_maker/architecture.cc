#include "model_maker/architecture.h"

#include <array>

namespace kvkeep::gguf {

std::span<const Architecture> architectures() {
  static constexpr auto kAll = std::to_array<Architecture>({
      {"llama", "sliceable", Window::kNone, plan_decoder},
      {"qwen3vl", "sliceable", Window::kNone, plan_decoder},
      {"gemma3", "windowed", Window::kAlways, plan_decoder},
      {"qwen35", "hybrid", Window::kNone, plan_decoder},
      {"falcon-h1", "hybrid", Window::kNone, plan_decoder},
      {"jamba", "hybrid", Window::kNone, plan_decoder},
      {"lfm2", "hybrid", Window::kOptional, plan_decoder},
      {"mamba", "recurrent", Window::kNone, plan_decoder},
      {"mamba2", "recurrent", Window::kNone, plan_decoder},
      {"deepseek4", "opaque", Window::kAlways, plan_deepseek4},
  });
  return kAll;
}

std::span<const Architecture> encoders() {
  static constexpr auto kAll = std::to_array<Architecture>({{"bert", "only embeds", Window::kNone, plan_bert}});
  return kAll;
}

namespace {

constexpr float kLogitDeviation = 4.0F;  // at temperature 1 the zero rows have a chance of about 1e-3 together

}  // namespace

Shape shape_of(ModelSize size) {
  switch (size) {
    case ModelSize::kTiny: return {128, 2, 1, 256, GGML_TYPE_F16, {2.0F, 4.0F, 2.0F, 2.0F}};
    case ModelSize::kSmall: return {512, 8, 4, 1536, GGML_TYPE_Q8_0, {1.75F, 4.0F, 1.5F, 1.5F}};
    case ModelSize::kReal: return {1024, 16, 4, 3072, GGML_TYPE_Q8_0, {1.75F, 2.0F, 1.5F, 0.75F}};
  }
  return {};
}

Spread gain(float factor, std::int64_t row_length) { return {factor / std::sqrt(static_cast<float>(row_length))}; }

void PlanBuilder::key(std::string_view name, MetadataValue value) {
  plan_.metadata.emplace_back(architecture_ + "." + std::string(name), std::move(value));
}

void PlanBuilder::common_keys(std::int64_t layers, MetadataValue kv_heads, std::int64_t vocabulary_size,
                              std::int64_t rope_size) {
  number("context_length", 131072);
  number("embedding_length", shape_.width);
  number("block_count", layers);
  number("feed_forward_length", shape_.hidden);
  number("attention.head_count", shape_.heads);
  key("attention.head_count_kv", std::move(kv_heads));
  key("attention.layer_norm_rms_epsilon", kNormEpsilon);
  number("rope.dimension_count", rope_size);
  key("rope.freq_base", kRopeBase);
  number("vocab_size", vocabulary_size);
}

void PlanBuilder::matrix(std::string_view name, std::int64_t from, std::int64_t to, float factor) {
  plan_.tensors.push_back(
      {prefix_ + std::string(name) + ".weight", shape_.matrix_type, {from, to}, gain(factor, from)});
}

void PlanBuilder::experts(std::string_view name, std::int64_t from, std::int64_t to, std::int64_t count, float factor) {
  plan_.tensors.push_back(
      {prefix_ + std::string(name) + ".weight", shape_.matrix_type, {from, to, count}, gain(factor, from)});
}

void PlanBuilder::values(std::string_view name, std::vector<std::int64_t> shape, TensorFill fill) {
  plan_.tensors.push_back({prefix_ + std::string(name), GGML_TYPE_F32, std::move(shape), fill});
}

void PlanBuilder::token_embedding(std::int64_t vocabulary_size, float deviation) {
  plan_.tensors.push_back({"token_embd.weight", GGML_TYPE_Q8_0, {shape_.width, vocabulary_size}, Spread{deviation}});
}

void PlanBuilder::output(std::int64_t vocabulary_size, std::string_view norm_name) {
  norm(norm_name, shape_.width);
  plan_.tensors.push_back({"output.weight",
                           GGML_TYPE_Q8_0,
                           {shape_.width, vocabulary_size},
                           OutputRows{gain(kLogitDeviation, shape_.width).deviation}});
}

}  // namespace kvkeep::gguf
