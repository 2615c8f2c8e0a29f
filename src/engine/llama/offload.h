#pragma once

// Places layers on devices and cells in memory. Decisions are pure functions over sizes; the caller measures.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/llama/model_options.h"
#include "engine/llama/model_params.h"
#include "engine/llama/model_shape.h"

namespace kvkeep::engine::llama {

// Memory of a device that is left to computation and other programs.
inline constexpr std::uint64_t kDeviceReserveBytes = std::uint64_t{1} << 30;
// A context that kvkeep chooses is at least this long, if the model was trained for as much.
inline constexpr std::uint32_t kLeastChosenContext = 4096;

// Returns how many layers to offload, counted as in libllama: the output first, then layers from the last to the first.
// `layer_bytes`: the memory of each layer on a device, including KV memory.
std::int32_t layers_that_fit(std::span<const std::uint64_t> layer_bytes, std::uint64_t output_bytes,
                             std::span<const std::uint64_t> free_bytes);

// Resolves ModelOptions::gpu_layers for these devices. Returns 0 without devices.
std::int32_t choose_gpu_layers(const ModelOptions& options, const ModelShape& shape, const ModelParams& params,
                               std::uint32_t context_tokens);

// Resolves ModelOptions::n_ctx: the given number, or as many tokens as the model was trained for and half of
// `host_bytes` of free memory holds. kNoSpace if the given number does not fit. `host_bytes` is 0 if unknown, or if the
// KV memory lies on devices.
Result<std::uint32_t> choose_context(const ModelOptions& options, const ModelShape& shape, std::uint64_t host_bytes);

// Returns the names of the devices that compute, for the fingerprint.
std::string device_names(const ModelParams& params, std::int32_t gpu_layers);

// The share of each kind of device in the computation. Layers are counted as in layers_that_fit().
struct Computing {
  std::vector<std::string> devices;  // that hold layers; empty: none does
  std::int32_t gpu_layers = 0;
  std::int32_t all_layers = 0;
  std::int32_t threads = 1;
  std::int32_t threads_batch = 1;
};
// Returns "the CPU with 2 threads", or "CUDA0 (NVIDIA H200) with 29 of 29 layers, and the CPU with 2 threads".
std::string to_string(const Computing& computing);

}  // namespace kvkeep::engine::llama
