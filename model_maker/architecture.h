#pragma once

// A generated model of one architecture as plain data: metadata keys and a list of tensors. make_model.cc turns such a
// plan into a file. A new architecture made of known blocks is a row of the table in architecture_decoders.cc; one with
// blocks of its own is an architecture_<name>.cc and a line in architecture.cc.

#include <ggml.h>

#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "model_maker/make_model.h"

namespace kvkeep::gguf {

// Every element has the same value (norm weights, biases).
struct Constant {
  float value;
};
// Random values with mean 0. A matrix with deviation gain / sqrt(row length) multiplies a vector's length by gain.
struct Spread {
  float deviation;
};
// Random values, evenly distributed (time steps and decays of recurrent layers).
struct Between {
  float lowest;
  float highest;
};
// The output matrix: one row per token; Spread, but rows of tokens that must not be generated are zero.
struct OutputRows {
  float deviation;
};
using TensorFill = std::variant<Constant, Spread, Between, OutputRows>;

struct TensorPlan {
  std::string name;
  ggml_type type;
  std::vector<std::int64_t> shape;  // ggml's order: the row length first
  TensorFill fill;
};

using MetadataValue =
    std::variant<std::uint32_t, float, bool, std::string, std::vector<std::uint32_t>, std::vector<float>>;

struct ModelPlan {
  std::vector<std::pair<std::string, MetadataValue>> metadata;  // architecture-specific keys only
  std::vector<TensorPlan> tensors;
};

struct PlanRequest {
  std::string_view architecture;
  ModelSize size;
  std::uint32_t window;  // tokens that a windowed layer sees; 0: no windowed layers
  std::int64_t vocabulary_size;
  bool rerank = false;  // with a classifier
};

enum class Window {
  kNone,      // the architecture has no windowed layers
  kOptional,  // only on request
  kAlways,    // kDefaultWindow, unless another one is requested
};
inline constexpr std::uint32_t kDefaultWindow = 128;

struct Architecture {
  std::string_view name;          // general.architecture
  std::string_view memory_class;  // of the generated models, as help texts name it
  Window window;
  ModelPlan (*plan)(const PlanRequest& request);
};

// Those that generate text, in the order of help texts.
std::span<const Architecture> architectures();
// Those that only embed.
std::span<const Architecture> encoders();

// Plans decoders of known blocks: all architectures except the next one's.
ModelPlan plan_decoder(const PlanRequest& request);
ModelPlan plan_deepseek4(const PlanRequest& request);
ModelPlan plan_bert(const PlanRequest& request);

// Plans the projector that fits a model: for pictures if models of its architecture see, otherwise for sound
// (projector.cc).
ModelPlan plan_projector(const PlanRequest& request);
// Returns "pictures" or "sound".
std::string_view projector_medium(std::string_view architecture);

// How much a block multiplies the length of a vector. Chosen by trial so that greedy text depends on every earlier
// token (one token changed 500 positions back changes the next 16 in nearly all cases) and does not run in circles, yet
// rounding does not decide it. Smaller for deeper models: every layer amplifies differences.
struct Gains {
  // For query and key each; attention scores have the square as deviation. A large gain makes attention sharp, so that
  // a small change of its input moves it elsewhere, which passes on the influence of a far-away token.
  float score;
  float attention;  // makes up for the averaging over the context
  float gate_and_up;
  float down;
};

// Sizes that all blocks of a model have in common.
struct Shape {
  std::int64_t width;
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t hidden;  // of the feed-forward block
  ggml_type matrix_type;
  Gains gains;
};

inline constexpr std::int64_t kHeadSize = 64;     // a multiple of 32, so that KV rows may be q8_0
inline constexpr std::int64_t kDeepPictures = 1;  // layers of qwen3vl that a picture's tokens enter directly
inline constexpr float kRopeBase = 10000.0F;  // low: many dimensions turn within a few tokens, no step repeats another
inline constexpr float kNormEpsilon = 1e-6F;

Shape shape_of(ModelSize size);
Spread gain(float factor, std::int64_t row_length);

// Collects the keys and tensors of one generated model: adds the prefix to names and the gain to matrices.
class PlanBuilder {
 public:
  PlanBuilder(std::string_view architecture, const Shape& shape) : architecture_(architecture), shape_(shape) {}

  const Shape& shape() const { return shape_; }

  // Adds "<architecture>.<name>".
  void key(std::string_view name, MetadataValue value);
  void number(std::string_view name, std::int64_t value) { key(name, static_cast<std::uint32_t>(value)); }
  // Adds the keys of attention and feed-forward layers, from context_length to vocab_size. `kv_heads` is a number or
  // one per layer.
  void common_keys(std::int64_t layers, MetadataValue kv_heads, std::int64_t vocabulary_size,
                   std::int64_t rope_size = kHeadSize);

  // From now on the names of tensors begin with "blk.<layer>.".
  void begin_layer(std::int64_t layer) { prefix_ = "blk." + std::to_string(layer) + "."; }
  void end_layers() { prefix_.clear(); }
  // Adds "<name>.weight", of the shape's matrix type, with `from` inputs and `to` outputs; `factor` scales lengths.
  void matrix(std::string_view name, std::int64_t from, std::int64_t to, float factor);
  // Adds one matrix per expert.
  void experts(std::string_view name, std::int64_t from, std::int64_t to, std::int64_t count, float factor);
  // Adds a tensor by its full name, as F32, which libllama demands for some.
  void values(std::string_view name, std::vector<std::int64_t> shape, TensorFill fill);
  // Adds "<name>.weight", with the same value in all elements.
  void norm(std::string_view name, std::int64_t size, float value = 1) {
    values(std::string(name) + ".weight", {size}, Constant{value});
  }

  void token_embedding(std::int64_t vocabulary_size, float deviation);
  // The norm's name is `norm_name`.weight.
  void output(std::int64_t vocabulary_size, std::string_view norm_name);

  ModelPlan take() { return std::move(plan_); }

 private:
  std::string architecture_;
  Shape shape_;
  std::string prefix_;
  ModelPlan plan_;
};

}  // namespace kvkeep::gguf
