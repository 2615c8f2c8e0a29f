#pragma once

// Turns ModelOptions into libllama's parameter structs. The structs point into these owners: keep them until the model
// and the context are made. Nothing here touches a file. Errors are kInvalid and name the option.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/llama/library.h"
#include "engine/llama/model_file.h"
#include "engine/llama/model_options.h"

namespace kvkeep::engine::llama {

class ModelParams {
 public:
  // Precondition: start_library() was called. Layers on devices are not set here: see choose_gpu_layers().
  static Result<ModelParams> make(const ModelOptions& options);

  llama_model_params& params() { return params_; }
  // Points the struct at the owned arrays; call after the last move of this object.
  const llama_model_params& bind();
  // Devices that weights may go to, in order.
  std::vector<ggml_backend_dev_t> offload_devices() const;
  const std::vector<llama_model_tensor_buft_override>& tensor_overrides() const { return tensor_overrides_; }

 private:
  Status add_devices(const ModelOptions& options);
  Status add_tensor_overrides(const ModelOptions& options);
  Status add_kv_overrides(const ModelOptions& options);

  llama_model_params params_ = llama_model_default_params();
  std::vector<ggml_backend_dev_t> devices_;
  std::vector<std::string> patterns_;
  std::vector<llama_model_tensor_buft_override> tensor_overrides_;
  std::vector<llama_model_kv_override> kv_overrides_;
  std::vector<float> tensor_split_;
};

// `sequences` is n_seq_max, including the scratch sequence. The caller sets the abort callback.
Result<llama_context_params> make_context_params(const ModelOptions& options, std::uint32_t sequences);

constexpr ggml_type to_ggml(KvType type) { return static_cast<ggml_type>(type); }

// ---- layers on devices and cells in memory: pure functions over sizes, which the caller measures ----

// A context that kvkeep chooses is at least this long, if the model was trained for as much.
inline constexpr std::uint32_t kLeastChosenContext = 4096;

// Returns how many bytes models may take on devices with so much free memory each.
std::uint64_t device_room(const ModelOptions::Fit& fit, std::span<const std::uint64_t> free_bytes);

// Returns how many layers to offload, counted as in libllama: the output first, then layers from the last to the first.
// `layer_bytes`: the memory of each layer on a device, including KV memory. `room_bytes`: of all devices.
std::int32_t layers_that_fit(std::span<const std::uint64_t> layer_bytes, std::uint64_t output_bytes,
                             std::uint64_t room_bytes);

// Resolves ModelOptions::gpu_layers for these devices. Returns 0 without devices.
std::int32_t choose_gpu_layers(const ModelOptions& options, const ModelShape& shape, const ModelParams& params,
                               std::uint32_t context_tokens);

// Where the KV memory lies, and how much room is there.
struct KvRoom {
  std::uint64_t host_bytes = 0;                 // free memory of the host; 0: unknown, or the KV memory lies on devices
  std::optional<std::uint64_t> device_bytes{};  // for weights and KV memory; empty: the KV memory lies in the host's
};

KvRoom measure_kv_room(const ModelOptions& options, const ModelParams& params);

// Resolves ModelOptions::n_ctx: the given number, or as many tokens as the model was trained for, and as half of the
// host's free memory holds. Fails with kNoSpace if the given number does not fit into the host's memory.
Result<std::uint32_t> choose_context(const ModelOptions& options, const ModelShape& shape, const KvRoom& room);

// Returns the names of the devices that compute, for the fingerprint: also without layers on them they compute large
// batches, unless `operation_offload` is false. Devices of other machines are named with their addresses.
std::string device_names(const ModelParams& params, std::int32_t gpu_layers, bool operation_offload);

// Returns the kinds of these devices, and the instructions for which the processor's kernels were made: rows of other
// kinds can differ in their last bits. "NVIDIA H100 PCIe, CPU SSE3 AVX AVX2".
std::string device_kinds(const ModelParams& params, std::int32_t gpu_layers, bool operation_offload);

// The share of each kind of device in the computation. Layers are counted as in layers_that_fit().
struct Computing {
  std::vector<std::string> devices = {};  // that hold layers; empty: none does
  std::int32_t gpu_layers = 0;
  std::int32_t all_layers = 0;
  std::int32_t threads = 1;
  std::int32_t threads_batch = 1;
};
// Returns "the CPU with 2 threads", or "CUDA0 (NVIDIA H200) with 29 of 29 layers, and the CPU with 2 threads".
std::string to_string(const Computing& computing);

}  // namespace kvkeep::engine::llama
