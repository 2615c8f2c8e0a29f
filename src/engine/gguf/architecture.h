#pragma once

// What a generated model of one architecture consists of: metadata keys and a list of tensors, as plain data.
// make_model.cc turns a plan into a file; a new architecture is one architecture_<name>.cc and one line in
// architecture.cc.

#include <ggml.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "engine/gguf/make_model.h"

namespace kvkeep::gguf {

// Every element the same (norm weights, biases).
struct Constant {
  float value;
};
// Random values with mean 0. A matrix with deviation gain / sqrt(row length) multiplies a vector's length by gain.
struct Spread {
  float deviation;
};
// The output matrix: one row per token; Spread, but rows of tokens that must not be generated are zero.
struct OutputRows {
  float deviation;
};
using TensorFill = std::variant<Constant, Spread, OutputRows>;

struct TensorPlan {
  std::string name;
  ggml_type type;
  std::vector<std::int64_t> shape;  // ggml's order: the row length first
  TensorFill fill;
};

using MetadataValue = std::variant<std::uint32_t, float, bool, std::string>;

struct ModelPlan {
  std::vector<std::pair<std::string, MetadataValue>> metadata;  // architecture-specific keys only
  std::vector<TensorPlan> tensors;
};

struct Architecture {
  std::string_view name;  // general.architecture
  ModelPlan (*plan)(ModelSize size, std::int64_t vocabulary_size);
};

std::span<const Architecture> architectures();

ModelPlan plan_llama(ModelSize size, std::int64_t vocabulary_size);

}  // namespace kvkeep::gguf
