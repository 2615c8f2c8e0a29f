#pragma once

// A generated model of one architecture as plain data: metadata keys and a list of tensors. make_model.cc turns such a
// plan into a file. A new architecture made of known blocks is a row of the table in architecture_decoders.cc; one with
// blocks of its own is an architecture_<name>.cc and a line in architecture.cc.

#include <ggml.h>

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

using MetadataValue = std::variant<std::uint32_t, float, bool, std::string, std::vector<std::uint32_t>>;

struct ModelPlan {
  std::vector<std::pair<std::string, MetadataValue>> metadata;  // architecture-specific keys only
  std::vector<TensorPlan> tensors;
};

struct PlanRequest {
  std::string_view architecture;
  ModelSize size;
  std::uint32_t window;  // tokens that a windowed layer sees; 0: no windowed layers
  std::int64_t vocabulary_size;
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

// In the order of help texts.
std::span<const Architecture> architectures();

// Plans decoders of known blocks: all architectures except the next one's.
ModelPlan plan_decoder(const PlanRequest& request);
ModelPlan plan_deepseek4(const PlanRequest& request);

}  // namespace kvkeep::gguf
