#include "engine/llama/offload.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace kvkeep::engine::llama {
namespace {

constexpr double kGibibyte = 1024.0 * 1024.0 * 1024.0;
constexpr std::uint32_t kContextStep = 256;  // libllama rounds contexts up to multiples of this

std::vector<std::uint64_t> free_bytes_of(const std::vector<ggml_backend_dev_t>& devices) {
  std::vector<std::uint64_t> out;
  for (ggml_backend_dev_t device : devices) {
    std::size_t free = 0;
    std::size_t total = 0;
    ggml_backend_dev_memory(device, &free, &total);
    out.push_back(free);
  }
  return out;
}

std::uint64_t context_bytes(const ModelOptions& options, const ModelShape& shape, std::uint64_t tokens) {
  return shape.kv_bytes(tokens, to_ggml(options.type_k), to_ggml(options.type_v));
}

}  // namespace

std::int32_t layers_that_fit(std::span<const std::uint64_t> layer_bytes, std::uint64_t output_bytes,
                             std::span<const std::uint64_t> free_bytes) {
  std::uint64_t room = 0;
  for (const std::uint64_t free : free_bytes) room += free > kDeviceReserveBytes ? free - kDeviceReserveBytes : 0;
  if (output_bytes > room) return 0;
  room -= output_bytes;
  std::int32_t count = 1;
  for (std::size_t i = layer_bytes.size(); i-- > 0; ++count) {
    if (layer_bytes[i] > room) break;
    room -= layer_bytes[i];
  }
  return count == 1 ? 0 : count;  // to offload only the output is not worth the transfers
}

std::int32_t choose_gpu_layers(const ModelOptions& options, const ModelShape& shape, const ModelParams& params,
                               std::uint32_t context_tokens) {
  const auto devices = params.offload_devices();
  const auto all = static_cast<std::int32_t>(shape.layer_bytes.size()) + 1;
  if (devices.empty()) return 0;
  if (options.gpu_layers) return std::min(*options.gpu_layers, all);
  std::vector<std::uint64_t> bytes = shape.layer_bytes;
  for (std::size_t i = 0; options.offload_kv && i < bytes.size(); ++i) {
    bytes[i] += shape.kv_bytes(i, context_tokens, to_ggml(options.type_k), to_ggml(options.type_v));
  }
  return layers_that_fit(bytes, shape.output_bytes, free_bytes_of(devices));
}

Result<std::uint32_t> choose_context(const ModelOptions& options, const ModelShape& shape, std::uint64_t host_bytes) {
  const bool given = options.n_ctx.has_value();
  const std::uint32_t tokens = options.n_ctx.value_or(shape.context_train_tokens);
  if (host_bytes == 0) return tokens;
  const std::uint64_t bytes = context_bytes(options, shape, tokens);
  if (given && bytes > host_bytes) {
    return no_space(
        fmt::format("a context of {} tokens needs {:.1f} GiB and {:.1f} GiB of memory are free; choose a "
                    "smaller one, or smaller KV types",
                    tokens, static_cast<double>(bytes) / kGibibyte, static_cast<double>(host_bytes) / kGibibyte));
  }
  if (given || bytes <= host_bytes / 2) return tokens;
  const std::uint64_t fitting = (host_bytes / 2) / std::max<std::uint64_t>(context_bytes(options, shape, 1), 1);
  const auto rounded = static_cast<std::uint32_t>(fitting / kContextStep * kContextStep);
  return std::min(tokens, std::max(rounded, kLeastChosenContext));
}

std::string device_names(const ModelParams& params, std::int32_t gpu_layers) {
  std::string names;
  if (gpu_layers > 0) {
    for (ggml_backend_dev_t device : params.offload_devices())
      names += std::string(ggml_backend_dev_name(device)) + ",";
  }
  return names + "CPU";
}

std::string to_string(const Computing& computing) {
  std::string text;
  if (!computing.devices.empty()) {
    text = fmt::format("{} with {} of {} layers, and ", fmt::join(computing.devices, ", "), computing.gpu_layers,
                       computing.all_layers);
  }
  text += fmt::format("the CPU with {} thread{}", computing.threads, computing.threads == 1 ? "" : "s");
  if (computing.threads_batch == computing.threads) return text;
  return text + fmt::format(" ({} for prompts)", computing.threads_batch);
}

}  // namespace kvkeep::engine::llama
