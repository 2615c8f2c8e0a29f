#pragma once

// Collects the keys and tensors of one generated model: names get their prefix here, matrices their gain.

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "model_maker/architecture.h"

namespace kvkeep::gguf {

// How much a block multiplies the length of what goes through it. Chosen by trial so that greedy text depends on every
// earlier token (one token changed 500 positions back changes the next 16 in nearly all cases) and does not run in
// circles, yet rounding does not decide it. Smaller for deeper models: every layer amplifies differences.
struct Gains {
  // Query and key each; attention scores have the square as deviation. Large: attention is sharp, and a small change of
  // its input moves it elsewhere, which is what carries a far-away token's influence on.
  float score;
  float attention;  // makes up for the averaging over the context
  float gate_and_up;
  float down;
};

// Sizes that all blocks of a model share.
struct Shape {
  std::int64_t width;
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t hidden;  // of the feed-forward block
  ggml_type matrix_type;
  Gains gains;
};

inline constexpr std::int64_t kHeadSize = 64;  // a multiple of 32, so that KV rows may be q8_0
inline constexpr float kRopeBase = 10000.0F;   // low: many dimensions turn within a few tokens: no step repeats another
inline constexpr float kNormEpsilon = 1e-6F;

Shape shape_of(ModelSize size);
Spread gain(float factor, std::int64_t row_length);

class PlanBuilder {
 public:
  PlanBuilder(std::string_view architecture, const Shape& shape) : architecture_(architecture), shape_(shape) {}

  const Shape& shape() const { return shape_; }

  // "<architecture>.<name>".
  void key(std::string_view name, MetadataValue value);
  void number(std::string_view name, std::int64_t value) { key(name, static_cast<std::uint32_t>(value)); }
  // What attention and feed-forward layers need, from context_length to vocab_size. `kv_heads`: a number or one per
  // layer.
  void common_keys(std::int64_t layers, MetadataValue kv_heads, std::int64_t vocabulary_size,
                   std::int64_t rope_size = kHeadSize);

  // Tensors after this are "blk.<layer>.<name>".
  void begin_layer(std::int64_t layer) { prefix_ = "blk." + std::to_string(layer) + "."; }
  void end_layers() { prefix_.clear(); }
  // "<name>.weight", of the shape's matrix type, `from` values in and `to` out, multiplying their length by `factor`.
  void matrix(std::string_view name, std::int64_t from, std::int64_t to, float factor);
  // One matrix per expert.
  void experts(std::string_view name, std::int64_t from, std::int64_t to, std::int64_t count, float factor);
  // Full name, F32: whatever libllama wants unquantized.
  void values(std::string_view name, std::vector<std::int64_t> shape, TensorFill fill);
  // "<name>.weight", all elements the same.
  void norm(std::string_view name, std::int64_t size, float value = 1) {
    values(std::string(name) + ".weight", {size}, Constant{value});
  }

  void token_embedding(std::int64_t vocabulary_size, float deviation);
  // The norm has the name `norm_name`.weight.
  void output(std::int64_t vocabulary_size, std::string_view norm_name);

  ModelPlan take() { return std::move(plan_); }

 private:
  std::string architecture_;
  Shape shape_;
  std::string prefix_;
  ModelPlan plan_;
};

}  // namespace kvkeep::gguf
