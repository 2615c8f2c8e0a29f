#pragma once

// Turns ModelOptions into libllama's parameter structs. The structs point into these owners: keep them until the model
// and the context are made. Nothing here touches a file. Errors are kInvalid and name the option.

#include <vector>

#include "base/result.h"
#include "engine/llama/library.h"
#include "engine/llama/model_options.h"

namespace kvkeep::engine::llama {

// In a smaller context not even a chat template with a short question fits.
inline constexpr std::uint32_t kLeastContext = 64;

class ModelParams {
 public:
  // Precondition: start_library() was called. Layers on devices are not set here: see offload.h.
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

}  // namespace kvkeep::engine::llama
