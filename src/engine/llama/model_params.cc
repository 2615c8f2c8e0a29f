#include "engine/llama/model_params.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string_view>

#include "engine/llama/remote_devices.h"
#include "os/machine.h"

namespace kvkeep::engine::llama {
namespace {

static_assert(to_ggml(KvType::kF32) == GGML_TYPE_F32 && to_ggml(KvType::kF16) == GGML_TYPE_F16 &&
              to_ggml(KvType::kBf16) == GGML_TYPE_BF16 && to_ggml(KvType::kQ8_0) == GGML_TYPE_Q8_0 &&
              to_ggml(KvType::kQ4_0) == GGML_TYPE_Q4_0 && to_ggml(KvType::kQ4_1) == GGML_TYPE_Q4_1 &&
              to_ggml(KvType::kIq4Nl) == GGML_TYPE_IQ4_NL && to_ggml(KvType::kQ5_0) == GGML_TYPE_Q5_0 &&
              to_ggml(KvType::kQ5_1) == GGML_TYPE_Q5_1);
static_assert(int{LLAMA_LOAD_MODE_NONE} == int(LoadMode::kNone) && int{LLAMA_LOAD_MODE_MMAP} == int(LoadMode::kMmap) &&
              int{LLAMA_LOAD_MODE_MLOCK} == int(LoadMode::kMlock) &&
              int{LLAMA_LOAD_MODE_MMAP_MLOCK} == int(LoadMode::kMmapAndMlock) &&
              int{LLAMA_LOAD_MODE_DIRECT_IO} == int(LoadMode::kDirect));
static_assert(int{GGML_NUMA_STRATEGY_DISTRIBUTE} == int(NumaPlacement::kDistribute) &&
              int{GGML_NUMA_STRATEGY_ISOLATE} == int(NumaPlacement::kIsolate) &&
              int{GGML_NUMA_STRATEGY_NUMACTL} == int(NumaPlacement::kNumactl));
static_assert(int{LLAMA_SPLIT_MODE_NONE} == int(SplitMode::kNone) &&
              int{LLAMA_SPLIT_MODE_LAYER} == int(SplitMode::kLayer) &&
              int{LLAMA_SPLIT_MODE_ROW} == int(SplitMode::kRow) &&
              int{LLAMA_SPLIT_MODE_TENSOR} == int(SplitMode::kTensor));
static_assert(int{LLAMA_ROPE_SCALING_TYPE_NONE} == int(RopeScaling::kNone) &&
              int{LLAMA_ROPE_SCALING_TYPE_LINEAR} == int(RopeScaling::kLinear) &&
              int{LLAMA_ROPE_SCALING_TYPE_YARN} == int(RopeScaling::kYarn));

Result<ggml_backend_dev_t> device_by_name(const std::string& name) {
  if (ggml_backend_dev_t device = ggml_backend_dev_by_name(name.c_str())) return device;
  std::string known;
  for (std::size_t i = 0; i < ggml_backend_dev_count(); ++i) {
    known += fmt::format("{}{}", i == 0 ? "" : ", ", ggml_backend_dev_name(ggml_backend_dev_get(i)));
  }
  return invalid(fmt::format("unknown device '{}'; this machine has: {}", name, known));
}

Result<ggml_backend_buffer_type_t> buffer_type_by_name(const std::string& name) {
  std::string known;
  for (std::size_t i = 0; i < ggml_backend_dev_count(); ++i) {
    ggml_backend_buffer_type_t type = ggml_backend_dev_buffer_type(ggml_backend_dev_get(i));
    if (type == nullptr) continue;
    if (name == ggml_backend_buft_name(type)) return type;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", ggml_backend_buft_name(type));
  }
  return invalid(fmt::format("unknown buffer type '{}'; this machine has: {}", name, known));
}

Result<llama_model_kv_override> to_llama(const MetadataOverride& changed) {
  llama_model_kv_override out{};
  const auto* text = std::get_if<std::string>(&changed.value);
  if (changed.key.empty() || changed.key.size() >= sizeof out.key || (text && text->size() >= sizeof out.val_str)) {
    return invalid(fmt::format("cannot pass on the metadata override '{}': its key or text is too long for libllama",
                               to_string(changed)));
  }
  std::memcpy(out.key, changed.key.data(), changed.key.size());
  if (const auto* number = std::get_if<std::int64_t>(&changed.value)) {
    out.tag = LLAMA_KV_OVERRIDE_TYPE_INT;
    out.val_i64 = *number;
  } else if (const auto* fraction = std::get_if<double>(&changed.value)) {
    out.tag = LLAMA_KV_OVERRIDE_TYPE_FLOAT;
    out.val_f64 = *fraction;
  } else if (const auto* flag = std::get_if<bool>(&changed.value)) {
    out.tag = LLAMA_KV_OVERRIDE_TYPE_BOOL;
    out.val_bool = *flag;
  } else {
    out.tag = LLAMA_KV_OVERRIDE_TYPE_STR;
    std::memcpy(out.val_str, text->data(), text->size());
  }
  return out;
}

Status set_kv_types(const ModelOptions& options, llama_context_params& params) {
  params.type_k = to_ggml(options.type_k);
  params.type_v = to_ggml(options.type_v);
  if (options.flash_attention == false && is_quantized(options.type_v)) {
    return invalid(
        fmt::format("a V cache of type {} needs flash attention, which is switched off", to_string(options.type_v)));
  }
  params.flash_attn_type = !options.flash_attention   ? LLAMA_FLASH_ATTN_TYPE_AUTO
                           : *options.flash_attention ? LLAMA_FLASH_ATTN_TYPE_ENABLED
                                                      : LLAMA_FLASH_ATTN_TYPE_DISABLED;
  return {};
}

// 0, or a negative number if 0 is a value, makes libllama take the model's own.
void set_positions(const ModelOptions& options, llama_context_params& params) {
  params.rope_scaling_type = options.rope_scaling ? static_cast<llama_rope_scaling_type>(*options.rope_scaling)
                                                  : LLAMA_ROPE_SCALING_TYPE_UNSPECIFIED;
  params.rope_freq_base = options.rope_frequency_base.value_or(0.0F);
  params.rope_freq_scale = options.rope_frequency_scale.value_or(0.0F);
  params.yarn_ext_factor = options.yarn_extrapolation.value_or(-1.0F);
  params.yarn_attn_factor = options.yarn_attention.value_or(-1.0F);
  params.yarn_beta_fast = options.yarn_beta_fast.value_or(-1.0F);
  params.yarn_beta_slow = options.yarn_beta_slow.value_or(-1.0F);
  params.yarn_orig_ctx = options.yarn_original_context.value_or(0);
}

void set_threads(const ModelOptions& options, llama_context_params& params) {
  params.n_threads = options.threads ? *options.threads : static_cast<std::int32_t>(os::core_count());
  params.n_threads_batch = options.threads_batch.value_or(params.n_threads);
}

}  // namespace

Status ModelParams::add_devices(const ModelOptions& options) {
  const bool none = options.devices == std::vector<std::string>{"none"};
  for (const std::string& name : options.devices) {
    if (none) break;
    TRY_ASSIGN(ggml_backend_dev_t device, device_by_name(name));
    if (ggml_backend_dev_type(device) != GGML_BACKEND_DEVICE_TYPE_CPU) devices_.push_back(device);
  }
  if (!options.devices.empty())
    devices_.push_back(nullptr);  // only "none" or "CPU": an empty list, so that nothing is offloaded
  if (options.tensor_split.size() > llama_max_devices()) {
    return invalid(fmt::format("the tensor split names {} devices; at most {} are possible",
                               options.tensor_split.size(), llama_max_devices()));
  }
  if (!options.tensor_split.empty()) {
    tensor_split_ = options.tensor_split;
    tensor_split_.resize(llama_max_devices(), 0.0F);
  }
  return {};
}

Status ModelParams::add_tensor_overrides(const ModelOptions& options) {
  const auto add = [this](std::string pattern, ggml_backend_buffer_type_t type) {
    patterns_.push_back(std::move(pattern));
    tensor_overrides_.push_back({nullptr, type});
  };
  for (const TensorOverride& placed : options.tensor_overrides) {
    TRY_ASSIGN(ggml_backend_buffer_type_t type, buffer_type_by_name(placed.buffer_type));
    add(placed.pattern, type);
  }
  constexpr std::string_view kExperts =
      "\\.ffn_(up|down|gate|gate_up)_(ch|)exps";  // libllama's names of expert tensors
  if (options.cpu_moe) add(std::string(kExperts), ggml_backend_cpu_buffer_type());
  for (std::uint32_t layer = 0; !options.cpu_moe && layer < options.cpu_moe_layers; ++layer) {
    add(fmt::format("blk\\.{}{}", layer, kExperts), ggml_backend_cpu_buffer_type());
  }
  return {};
}

Status ModelParams::add_kv_overrides(const ModelOptions& options) {
  for (const MetadataOverride& changed : options.kv_overrides) {
    TRY_ASSIGN(const llama_model_kv_override override, to_llama(changed));
    kv_overrides_.push_back(override);
  }
  return {};
}

Result<ModelParams> ModelParams::make(const ModelOptions& options) {
  ModelParams made;
  TRY(made.add_devices(options));
  TRY(made.add_tensor_overrides(options));
  TRY(made.add_kv_overrides(options));
  made.params_.split_mode = static_cast<llama_split_mode>(options.split_mode);
  made.params_.load_mode = options.load_mode ? static_cast<llama_load_mode>(*options.load_mode) : LLAMA_LOAD_MODE_AUTO;
  made.params_.main_gpu = options.main_gpu;
  made.params_.use_extra_bufts = options.repack;
  made.params_.no_host = options.no_host;
  made.params_.check_tensors = options.check_tensors;
  return made;
}

const llama_model_params& ModelParams::bind() {
  if (!devices_.empty()) params_.devices = devices_.data();
  if (!tensor_split_.empty()) params_.tensor_split = tensor_split_.data();
  if (!tensor_overrides_.empty()) {
    for (std::size_t i = 0; i < patterns_.size(); ++i) tensor_overrides_[i].pattern = patterns_[i].c_str();
    if (tensor_overrides_.back().buft != nullptr) tensor_overrides_.push_back({nullptr, nullptr});
    params_.tensor_buft_overrides = tensor_overrides_.data();
  }
  if (!kv_overrides_.empty()) {
    if (kv_overrides_.back().key[0] != 0) kv_overrides_.push_back({});  // an empty key ends the list
    params_.kv_overrides = kv_overrides_.data();
  }
  return params_;
}

std::vector<ggml_backend_dev_t> ModelParams::offload_devices() const {
  std::vector<ggml_backend_dev_t> found;
  if (!devices_.empty()) {
    found.assign(devices_.begin(), devices_.end() - 1);
    return found;
  }
  for (std::size_t i = 0; i < ggml_backend_dev_count(); ++i) {
    ggml_backend_dev_t device = ggml_backend_dev_get(i);
    const auto type = ggml_backend_dev_type(device);
    if (type == GGML_BACKEND_DEVICE_TYPE_GPU || type == GGML_BACKEND_DEVICE_TYPE_IGPU) found.push_back(device);
  }
  return found;
}

Result<llama_context_params> make_context_params(const ModelOptions& options, std::uint32_t sequences) {
  llama_context_params params = llama_context_default_params();
  if (options.n_ctx && *options.n_ctx < kLeastContext) {
    return invalid(fmt::format("a context of {} tokens is too small; at least {}", *options.n_ctx, kLeastContext));
  }
  if (sequences > llama_max_parallel_sequences()) {
    return invalid(
        fmt::format("{} sequences are too many; libllama takes {}", sequences, llama_max_parallel_sequences()));
  }
  if (options.ubatch() == 0) return invalid("batch sizes must not be 0");
  // libllama reserves an output per sequence within one batch, and aborts the process if they do not fit.
  if (options.n_batch < sequences) {
    return invalid(
        fmt::format("a batch of {} tokens is too small for {} sequences (running requests, idle "
                    "conversations and one to copy through)",
                    options.n_batch, sequences));
  }
  params.n_ctx = options.n_ctx.value_or(0);
  params.n_seq_max = sequences;
  params.n_batch = options.n_batch;
  params.n_ubatch = options.ubatch();
  params.n_rs_seq = 0;  // a rollback of recurrent state past the last ubatch returns true with a wrong state
  params.kv_unified = !options.own_cells;  // forks that share, and copies of a range, need one pool of cells
  params.offload_kqv = options.offload_kv;
  params.op_offload = options.operation_offload;
  params.swa_full = options.swa_full;
  params.no_perf = true;
  set_threads(options, params);
  TRY(set_kv_types(options, params));
  set_positions(options, params);
  return params;
}

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

// Returns how many tokens of context fit into so many bytes: at most as many as the model was trained for.
std::uint32_t shortened(const ModelOptions& options, const ModelShape& shape, std::uint64_t bytes) {
  const std::uint32_t trained = shape.context_train_tokens;
  if (context_bytes(options, shape, trained) <= bytes) return trained;
  const std::uint64_t fitting = bytes / std::max<std::uint64_t>(context_bytes(options, shape, 1), 1);
  const auto rounded = static_cast<std::uint32_t>(fitting / kContextStep * kContextStep);
  return std::min(trained, std::max(rounded, options.fit.least_context.value_or(kLeastChosenContext)));
}

}  // namespace

std::uint64_t device_room(const ModelOptions::Fit& fit, std::span<const std::uint64_t> free_bytes) {
  std::uint64_t room = 0;
  for (std::size_t i = 0; i < free_bytes.size(); ++i) {
    const std::uint64_t reserve = fit.reserve_bytes[std::min(i, fit.reserve_bytes.size() - 1)];
    room += free_bytes[i] > reserve ? free_bytes[i] - reserve : 0;
  }
  return room;
}

std::int32_t layers_that_fit(std::span<const std::uint64_t> layer_bytes, std::uint64_t output_bytes,
                             std::uint64_t room_bytes) {
  std::uint64_t room = room_bytes;
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
  if (!options.fit.enabled) return all;
  std::vector<std::uint64_t> bytes = shape.layer_bytes;
  for (std::size_t i = 0; options.offload_kv && i < bytes.size(); ++i) {
    bytes[i] += shape.kv_bytes(i, context_tokens, to_ggml(options.type_k), to_ggml(options.type_v));
  }
  return layers_that_fit(bytes, shape.output_bytes, device_room(options.fit, free_bytes_of(devices)));
}

KvRoom measure_kv_room(const ModelOptions& options, const ModelParams& params) {
  const auto devices = params.offload_devices();
  if (!devices.empty() && options.offload_kv && options.gpu_layers != 0) {
    return {.device_bytes = device_room(options.fit, free_bytes_of(devices))};
  }
  const auto available = os::available_memory();
  return {.host_bytes = available ? available->value() : 0};
}

Result<std::uint32_t> choose_context(const ModelOptions& options, const ModelShape& shape, const KvRoom& room) {
  const bool given = options.n_ctx.has_value();
  const std::uint32_t tokens = options.n_ctx.value_or(shape.context_train_tokens);
  if (room.device_bytes) {
    // Flags that place weights leave open how many of them lie on devices, and so how much room is left for cells.
    const bool placed =
        options.gpu_layers || options.cpu_moe || options.cpu_moe_layers > 0 || !options.tensor_overrides.empty();
    if (given || placed || !options.fit.enabled || !options.fit.least_context) return tokens;
    const std::uint64_t weights = std::reduce(shape.layer_bytes.begin(), shape.layer_bytes.end(), shape.output_bytes);
    const std::uint64_t left = *room.device_bytes > weights ? *room.device_bytes - weights : 0;
    return shortened(options, shape, left);
  }
  const std::uint64_t host_bytes = room.host_bytes;
  if (host_bytes == 0) return tokens;
  const std::uint64_t bytes = context_bytes(options, shape, tokens);
  if (given && bytes > host_bytes) {
    return no_space(
        fmt::format("a context of {} tokens needs {:.1f} GiB and {:.1f} GiB of memory are free; choose a "
                    "smaller one, or smaller KV types",
                    tokens, static_cast<double>(bytes) / kGibibyte, static_cast<double>(host_bytes) / kGibibyte));
  }
  return given || !options.fit.enabled ? tokens : shortened(options, shape, host_bytes / 2);
}

std::string device_names(const ModelParams& params, std::int32_t gpu_layers, bool operation_offload) {
  std::string names;
  if (gpu_layers > 0 || operation_offload) {
    for (ggml_backend_dev_t device : params.offload_devices()) names += name_in_fingerprint(device) + ",";
  }
  return names + "CPU";
}

std::string device_kinds(const ModelParams& params, std::int32_t gpu_layers, bool operation_offload) {
  std::string kinds;
  if (gpu_layers > 0 || operation_offload) {
    for (ggml_backend_dev_t device : params.offload_devices())
      kinds += std::string(ggml_backend_dev_description(device)) + ", ";
  }
  kinds += "CPU";
  ggml_backend_reg_t cpu = ggml_backend_reg_by_name("CPU");
  void* address = cpu == nullptr ? nullptr : ggml_backend_reg_get_proc_address(cpu, "ggml_backend_get_features");
  if (address == nullptr) return kinds;
  const auto features = reinterpret_cast<ggml_backend_get_features_t>(address);
  for (const ggml_backend_feature* each = features(cpu); each->name != nullptr; ++each) {
    if (std::string_view(each->value) != "0") kinds += fmt::format(" {}", each->name);
  }
  return kinds;
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
