#pragma once

// Everything that decides how a model is loaded. Plain values: the program fills them from flags, tests by hand.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kvkeep::engine::llama {

enum class FlashAttention { kAuto, kOn, kOff };

// A LoRA adapter (a GGUF file) and how strongly it applies.
struct LoraOption {
  std::string path;
  float scale = 1.0F;
};

// A control vector (a GGUF file with tensors direction.1 .. direction.N).
struct ControlVectorOption {
  std::string path;
  float strength = 1.0F;
};

struct ModelOptions {
  // --- the model
  std::string path;  // of a split model: its first file
  // Metadata to replace: "key=int:1", "key=float:0.5", "key=bool:true", "key=str:text".
  std::vector<std::string> kv_overrides;
  std::vector<LoraOption> loras;
  std::vector<ControlVectorOption> control_vectors;
  // Layers that control vectors apply to, both included; 0: the first, the last.
  std::int32_t control_vector_first_layer = 0;
  std::int32_t control_vector_last_layer = 0;

  // --- the memory
  // Cells of the memory: the longest prompt with its reply, shared by all sequences. 0: as long as the model was
  // trained for.
  std::uint32_t n_ctx = 0;
  // Requests decoded at the same time.
  std::uint32_t parallel = 4;
  // Sequences that keep finished conversations in the model's memory. Cheap: they cost cells only while in use.
  std::uint32_t idle_sequences = 8;
  // ggml types: f32, f16, bf16, q8_0, q5_1, q5_0, q4_1, q4_0, iq4_nl. A quantised V needs flash attention.
  std::string type_k = "f16";
  std::string type_v = "f16";
  FlashAttention flash_attention = FlashAttention::kAuto;
  bool offload_kv = true;  // keep the KV memory on the device that computes the layer
  bool swa_full = false;   // windowed models: keep more than the window

  // --- computation
  std::uint32_t n_batch = 2048;    // most tokens per decode call
  std::uint32_t n_ubatch = 512;    // most tokens per computation: more is faster to prefill and takes more memory
  std::int32_t threads = 0;        // for one token at a time; 0: one per core
  std::int32_t threads_batch = 0;  // for prompts; 0: as threads
  bool operation_offload = true;   // compute large batches of host-resident layers on a device
  bool warmup = true;              // run a first batch at load, so that the first request does not pay for it

  // --- where the weights go
  static constexpr std::int32_t kLayersAuto = -1;  // as many as fit into the free memory of the devices
  static constexpr std::int32_t kLayersAll = -2;
  std::int32_t gpu_layers = kLayersAuto;
  // By name, as --list-devices prints them; empty: all; "none" alone: no device.
  std::vector<std::string> devices;
  std::vector<std::string> tensor_overrides;  // "regular expression=buffer type", e.g. "ffn_.*_exps=CPU"
  bool cpu_moe = false;                       // all experts in host memory
  std::uint32_t cpu_moe_layers = 0;           // the experts of the first N layers in host memory
  std::string split_mode = "layer";           // none, layer, row, tensor
  std::vector<float> tensor_split;            // share of each device
  std::int32_t main_gpu = 0;
  // auto, none, mmap, mlock, mmap+mlock, dio, as libllama names them.
  std::string load_mode = "auto";
  bool repack = true;          // rearrange weights for the CPU's instructions; part of the fingerprint
  bool no_host = false;        // bypass host buffers, so that extra ones can be used
  bool check_tensors = false;  // look for invalid values in the weights

  // --- positions
  std::string rope_scaling;        // none, linear, yarn, longrope; empty: the model's
  float rope_frequency_base = 0;   // 0: the model's
  float rope_frequency_scale = 0;  // 0: the model's
  float yarn_extrapolation = -1;   // negative: the model's
  float yarn_attention = -1;
  float yarn_beta_fast = -1;
  float yarn_beta_slow = -1;
  std::uint32_t yarn_original_context = 0;  // 0: the model's

  // --- the cache
  // State of different salts is never shared. For a server's whole life; for one of several tenants: base/tenant.h.
  std::string salt;
  // Name the model by all its bytes instead of samples of each tensor: slower to start, for files that are patched.
  bool full_model_hash = false;
  // The program to run class tests in (its hidden command kClassTestCommand). Empty: they run in this process, which an
  // architecture that cannot copy ranges takes along; for tests.
  std::string class_test_program;
};

}  // namespace kvkeep::engine::llama
