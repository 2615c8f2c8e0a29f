#pragma once

// What a generated model of one architecture consists of: metadata keys and a list of tensors, as plain data.
// make_model.cc turns a plan into a file. A new architecture made of known blocks is a row of the table in
// architecture_decoders.cc; one with blocks of its own is an architecture_<name>.cc and a line in architecture.cc.

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

// Every element the same (norm weights, biases).
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
  kNone,      // such models have no windowed layers
  kOptional,  // only if asked for
  kAlways,    // kDefaultWindow unless asked for another
};
inline constexpr std::uint32_t kDefaultWindow = 128;

struct Architecture {
  std::string_view name;          // general.architecture
  std::string_view memory_class;  // of the models made, as help texts name it
  Window window;
  ModelPlan (*plan)(const PlanRequest& request);
};

// In the order in which help texts list them.
std::span<const Architecture> architectures();

// Decoders of known blocks: everything but the below.
ModelPlan plan_decoder(const PlanRequest& request);
ModelPlan plan_deepseek4(const PlanRequest& request);

}  // namespace kvkeep::gguf
