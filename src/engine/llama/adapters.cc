#include "engine/llama/adapters.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>
#include <string_view>

#include "engine/gguf/model_identity.h"
#include "engine/llama/gguf_file.h"

namespace kvkeep::engine::llama {
namespace {

struct TensorsDeleter {
  void operator()(ggml_context* tensors) const { ggml_free(tensors); }
};

Result<std::string> file_hash(const std::string& path) {
  TRY_ASSIGN(const ModelHash hash, gguf::file_identity(open_linked, path));
  return hash.hex();
}

Result<std::vector<std::string>> apply_loras(const ModelOptions& options, llama_model& model, llama_context& context) {
  std::vector<llama_adapter_lora*> adapters;
  std::vector<float> scales;
  std::vector<std::string> names;
  for (const ScaledFile& lora : options.loras) {
    TRY_ASSIGN(const std::string hash, file_hash(lora.path));
    const std::uint64_t mark = log_mark();
    llama_adapter_lora* adapter = llama_adapter_lora_init(&model, lora.path.c_str());
    if (adapter == nullptr) {
      return invalid(fmt::format("cannot use the LoRA adapter {}: {}", lora.path, log_reason_since(mark)));
    }
    adapters.push_back(adapter);
    scales.push_back(lora.scale);
    names.push_back(fmt::format("lora {} scale={}", hash, lora.scale));
  }
  if (!adapters.empty() && llama_set_adapters_lora(&context, adapters.data(), adapters.size(), scales.data()) != 0) {
    return invalid("libllama does not accept these LoRA adapters together");
  }
  return names;
}

// Returns N for the tensor "direction.N", 0 for other tensors.
std::int32_t direction_layer(std::string_view name) {
  constexpr std::string_view kPrefix = "direction.";
  std::int32_t layer = 0;
  if (!name.starts_with(kPrefix)) return 0;
  name.remove_prefix(kPrefix.size());
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
  return error == std::errc{} && end == name.data() + name.size() && layer > 0 ? layer : 0;
}

// Adds one file's directions, scaled, to `sum`: embedding_size values per layer, layer 1 first.
Status add_control_vector(const ScaledFile& option, std::size_t embedding_size, std::vector<float>& sum) {
  ggml_context* raw_tensors = nullptr;
  const GgufHandle file(gguf_init_from_file(option.path.c_str(), {.no_alloc = false, .ctx = &raw_tensors}));
  const std::unique_ptr<ggml_context, TensorsDeleter> tensors(raw_tensors);
  if (!file) return invalid(fmt::format("cannot read the control vector {}", option.path));
  bool found = false;
  for (ggml_tensor* tensor = ggml_get_first_tensor(raw_tensors); tensor != nullptr;
       tensor = ggml_get_next_tensor(raw_tensors, tensor)) {
    const std::int32_t layer = direction_layer(ggml_get_name(tensor));
    if (layer == 0) continue;
    const bool fits =
        tensor->type == GGML_TYPE_F32 && ggml_nelements(tensor) == static_cast<std::int64_t>(embedding_size);
    const std::size_t begin = static_cast<std::size_t>(layer - 1) * embedding_size;
    if (!fits || begin >= sum.size()) {
      return invalid(fmt::format("the control vector {} is not made for this model", option.path));
    }
    const float* values = ggml_get_data_f32(tensor);
    for (std::size_t i = 0; i < embedding_size; ++i) sum[begin + i] += option.scale * values[i];
    found = true;
  }
  if (!found) return invalid(fmt::format("{} contains no control vector", option.path));
  return {};
}

Result<std::vector<std::string>> apply_control_vectors(const ModelOptions& options, llama_model& model,
                                                       llama_context& context) {
  std::vector<std::string> names;
  if (options.control_vectors.empty()) return names;
  const std::int32_t layers = llama_model_n_layer(&model);
  const std::int32_t embedding_size = llama_model_n_embd(&model);
  const auto [from, to] = options.control_vector_layers.value_or(std::pair(0, 0));
  const std::int32_t first = std::max(from, 1);
  const std::int32_t last = to > 0 ? to : layers;
  std::vector<float> sum(static_cast<std::size_t>(layers - 1) * static_cast<std::size_t>(embedding_size));
  for (const ScaledFile& option : options.control_vectors) {
    TRY_ASSIGN(const std::string hash, file_hash(option.path));
    TRY(add_control_vector(option, static_cast<std::size_t>(embedding_size), sum));
    names.push_back(fmt::format("control_vector {} strength={} layers={}..{}", hash, option.scale, first, last));
  }
  if (llama_set_adapter_cvec(&context, sum.data(), sum.size(), embedding_size, first, last) != 0) {
    return invalid("libllama does not accept these control vectors");
  }
  return names;
}

}  // namespace

Result<std::vector<std::string>> apply_adapters(const ModelOptions& options, llama_model& model,
                                                llama_context& context) {
  TRY_ASSIGN(auto names, apply_loras(options, model, context));
  TRY_ASSIGN(const auto vectors, apply_control_vectors(options, model, context));
  names.insert(names.end(), vectors.begin(), vectors.end());
  return names;
}

}  // namespace kvkeep::engine::llama
