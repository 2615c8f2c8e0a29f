#include "engine_options.h"

#include <fmt/format.h>

namespace kvkeep::cli {

namespace {

namespace llama = engine::llama;

std::string override_text(const MetadataOverride& changed) {
  const auto text = [&](const char* type, const auto& value) {
    return fmt::format("{}={}:{}", changed.key, type, value);
  };
  if (const auto* number = std::get_if<std::int64_t>(&changed.value)) return text("int", *number);
  if (const auto* number = std::get_if<double>(&changed.value)) return text("float", *number);
  if (const auto* flag = std::get_if<bool>(&changed.value)) return text("bool", *flag);
  return text("str", std::get<std::string>(changed.value));
}

const char* name_of(SplitMode mode) {
  switch (mode) {
    case SplitMode::kNone: return "none";
    case SplitMode::kLayer: return "layer";
    case SplitMode::kRow: return "row";
    case SplitMode::kTensor: return "tensor";
  }
  return "layer";
}

const char* name_of(LoadMode mode) {
  switch (mode) {
    case LoadMode::kAuto: return "auto";
    case LoadMode::kNone: return "none";
    case LoadMode::kMmap: return "mmap";
    case LoadMode::kMlock: return "mlock";
    case LoadMode::kMmapAndMlock: return "mmap+mlock";
    case LoadMode::kDirect: return "dio";
  }
  return "auto";
}

const char* name_of(RopeScaling scaling) {
  switch (scaling) {
    case RopeScaling::kFromModel: return "";
    case RopeScaling::kNone: return "none";
    case RopeScaling::kLinear: return "linear";
    case RopeScaling::kYarn: return "yarn";
  }
  return "";
}

llama::FlashAttention flash_attention(FlashAttention choice) {
  switch (choice) {
    case FlashAttention::kOff: return llama::FlashAttention::kOff;
    case FlashAttention::kOn: return llama::FlashAttention::kOn;
    case FlashAttention::kAuto: return llama::FlashAttention::kAuto;
  }
  return llama::FlashAttention::kAuto;
}

std::int32_t gpu_layers(const GpuLayers& layers) {
  switch (layers.kind) {
    case GpuLayers::Kind::kAuto: return llama::ModelOptions::kLayersAuto;
    case GpuLayers::Kind::kAll: return llama::ModelOptions::kLayersAll;
    case GpuLayers::Kind::kCount: return layers.count;
  }
  return llama::ModelOptions::kLayersAuto;
}

void set_model(const ModelOptions& from, llama::ModelOptions& to) {
  to.path = from.path;
  for (const MetadataOverride& changed : from.overrides) to.kv_overrides.push_back(override_text(changed));
  for (const ScaledFile& lora : from.loras) to.loras.push_back({lora.path, lora.scale});
  for (const ScaledFile& vector : from.control_vectors) to.control_vectors.push_back({vector.path, vector.scale});
  if (from.control_vector_layers) {
    to.control_vector_first_layer = from.control_vector_layers->first;
    to.control_vector_last_layer = from.control_vector_layers->second;
  }
  to.load_mode = name_of(from.load_mode);
  to.repack = from.repack;
  to.no_host = !from.host_buffers;
  to.check_tensors = from.check_tensors;
  to.full_model_hash = from.full_hash;
}

void set_context(const ContextOptions& from, llama::ModelOptions& to) {
  to.n_ctx = from.tokens;
  to.parallel = from.parallel;
  to.n_batch = from.batch_tokens;
  to.n_ubatch = from.ubatch();
  to.threads = from.threads;
  to.threads_batch = from.threads_batch;
  to.flash_attention = flash_attention(from.flash_attention);
  to.type_k = from.key_type;
  to.type_v = from.value_type;
  to.swa_full = from.full_window;
  to.warmup = from.warmup;
  to.rope_scaling = name_of(from.rope.scaling);
  to.rope_frequency_base = from.rope.frequency_base;
  to.rope_frequency_scale = from.rope.frequency_scale;
  to.yarn_original_context = from.rope.yarn_original_context;
  to.yarn_extrapolation = from.rope.yarn_extrapolation;
  to.yarn_attention = from.rope.yarn_attention;
  to.yarn_beta_slow = from.rope.yarn_beta_slow;
  to.yarn_beta_fast = from.rope.yarn_beta_fast;
}

void set_offload(const OffloadOptions& from, llama::ModelOptions& to) {
  to.gpu_layers = gpu_layers(from.layers);
  to.devices = from.devices;
  to.offload_kv = from.kv_on_device;
  for (const TensorOverride& placed : from.tensors) {
    to.tensor_overrides.push_back(fmt::format("{}={}", placed.pattern, placed.buffer_type));
  }
  to.cpu_moe = from.experts_on_cpu;
  to.cpu_moe_layers = static_cast<std::uint32_t>(from.expert_layers_on_cpu);
  to.split_mode = name_of(from.split);
  to.tensor_split = from.split_shares;
  to.main_gpu = from.main_device;
}

}  // namespace

engine::llama::ModelOptions engine_options(const ServeOptions& options) {
  llama::ModelOptions engine;
  set_model(options.model, engine);
  set_context(options.context, engine);
  set_offload(options.offload, engine);
  engine.class_test_program = "/proc/self/exe";
  return engine;
}

engine::SamplingParams sampling_params(const SamplingDefaults& defaults) {
  engine::SamplingParams params;
  params.temperature = defaults.temperature;
  params.top_k = defaults.top_k;
  params.top_p = defaults.top_p;
  params.min_p = defaults.min_p;
  params.repeat_penalty = defaults.repeat_penalty;
  params.repeat_last_n = defaults.repeat_last_n;
  params.presence_penalty = defaults.presence_penalty;
  params.frequency_penalty = defaults.frequency_penalty;
  params.ignore_eos = defaults.ignore_eos;
  if (defaults.seed) params.seed = *defaults.seed;
  return params;
}

}  // namespace kvkeep::cli
