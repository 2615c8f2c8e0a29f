#include "engine/llama/model_params.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include "os/processors.h"

namespace kvkeep::engine::llama {
namespace {

template <typename Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

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

Result<llama_load_mode> parse_load_mode(const std::string& name) {
  for (int mode = LLAMA_LOAD_MODE_AUTO; mode <= LLAMA_LOAD_MODE_DIRECT_IO; ++mode) {
    if (name == llama_load_mode_name(static_cast<llama_load_mode>(mode))) return static_cast<llama_load_mode>(mode);
  }
  return invalid(fmt::format("unknown load mode '{}'; known: auto, none, mmap, mlock, mmap+mlock, dio", name));
}

Result<llama_split_mode> parse_split_mode(const std::string& name) {
  constexpr std::array<std::string_view, 4> kNames{"none", "layer", "row", "tensor"};
  const auto found = std::ranges::find(kNames, name);
  if (found == kNames.end())
    return invalid(fmt::format("unknown split mode '{}'; known: none, layer, row, tensor", name));
  return static_cast<llama_split_mode>(found - kNames.begin());
}

Result<llama_rope_scaling_type> parse_rope_scaling(const std::string& name) {
  if (name.empty()) return LLAMA_ROPE_SCALING_TYPE_UNSPECIFIED;
  constexpr std::array<std::string_view, 4> kNames{"none", "linear", "yarn", "longrope"};
  const auto found = std::ranges::find(kNames, name);
  if (found == kNames.end()) {
    return invalid(fmt::format("unknown RoPE scaling '{}'; known: none, linear, yarn, longrope", name));
  }
  return static_cast<llama_rope_scaling_type>(found - kNames.begin());
}

// The value behind "type:". False: it does not parse.
bool parse_override_value(std::string_view type, std::string_view text, llama_model_kv_override& out) {
  if (type == "int") {
    const auto number = parse_number<std::int64_t>(text);
    out.tag = LLAMA_KV_OVERRIDE_TYPE_INT;
    out.val_i64 = number.value_or(0);
    return number.has_value();
  }
  if (type == "float") {
    const auto number = parse_number<double>(text);
    out.tag = LLAMA_KV_OVERRIDE_TYPE_FLOAT;
    out.val_f64 = number.value_or(0);
    return number.has_value();
  }
  if (type == "bool") {
    out.tag = LLAMA_KV_OVERRIDE_TYPE_BOOL;
    out.val_bool = text == "true";
    return text == "true" || text == "false";
  }
  if (type != "str" || text.size() >= sizeof out.val_str) return false;
  out.tag = LLAMA_KV_OVERRIDE_TYPE_STR;
  std::memcpy(out.val_str, text.data(), text.size());
  return true;
}

Result<llama_model_kv_override> parse_kv_override(std::string_view text) {
  llama_model_kv_override out{};
  const auto equals = text.find('=');
  const auto colon = text.find(':', equals == text.npos ? 0 : equals);
  const bool split = equals != text.npos && colon != text.npos && equals > 0 && equals < sizeof out.key;
  if (!split || !parse_override_value(text.substr(equals + 1, colon - equals - 1), text.substr(colon + 1), out)) {
    return invalid(fmt::format("cannot read the metadata override '{}'; write key=int|float|bool|str:value", text));
  }
  std::memcpy(out.key, text.data(), equals);
  return out;
}

bool is_quantised(ggml_type type) { return ggml_is_quantized(type); }

Status set_kv_types(const ModelOptions& options, llama_context_params& params) {
  TRY_ASSIGN(params.type_k, parse_kv_type(options.type_k));
  TRY_ASSIGN(params.type_v, parse_kv_type(options.type_v));
  if (options.flash_attention == FlashAttention::kOff && is_quantised(params.type_v)) {
    return invalid(fmt::format("a V cache of type {} needs flash attention, which is switched off", options.type_v));
  }
  params.flash_attn_type = options.flash_attention == FlashAttention::kAuto ? LLAMA_FLASH_ATTN_TYPE_AUTO
                           : options.flash_attention == FlashAttention::kOn ? LLAMA_FLASH_ATTN_TYPE_ENABLED
                                                                            : LLAMA_FLASH_ATTN_TYPE_DISABLED;
  return {};
}

Status set_positions(const ModelOptions& options, llama_context_params& params) {
  TRY_ASSIGN(params.rope_scaling_type, parse_rope_scaling(options.rope_scaling));
  params.rope_freq_base = options.rope_frequency_base;
  params.rope_freq_scale = options.rope_frequency_scale;
  params.yarn_ext_factor = options.yarn_extrapolation;
  params.yarn_attn_factor = options.yarn_attention;
  params.yarn_beta_fast = options.yarn_beta_fast;
  params.yarn_beta_slow = options.yarn_beta_slow;
  params.yarn_orig_ctx = options.yarn_original_context;
  return {};
}

void set_threads(const ModelOptions& options, llama_context_params& params) {
  const auto cores = static_cast<std::int32_t>(os::core_count());
  params.n_threads = options.threads > 0 ? options.threads : cores;
  params.n_threads_batch = options.threads_batch > 0 ? options.threads_batch : params.n_threads;
}

}  // namespace

Result<ggml_type> parse_kv_type(const std::string& name) {
  constexpr std::array kTypes{GGML_TYPE_F32,  GGML_TYPE_F16,  GGML_TYPE_BF16, GGML_TYPE_Q8_0,  GGML_TYPE_Q5_1,
                              GGML_TYPE_Q5_0, GGML_TYPE_Q4_1, GGML_TYPE_Q4_0, GGML_TYPE_IQ4_NL};
  for (const ggml_type type : kTypes) {
    if (name == ggml_type_name(type)) return type;
  }
  return invalid(
      fmt::format("unknown KV type '{}'; known: f32, f16, bf16, q8_0, q5_1, q5_0, q4_1, q4_0, iq4_nl", name));
}

Status ModelParams::add_devices(const ModelOptions& options) {
  const bool none = options.devices == std::vector<std::string>{"none"};
  for (const std::string& name : options.devices) {
    if (none) break;
    TRY_ASSIGN(ggml_backend_dev_t device, device_by_name(name));
    if (ggml_backend_dev_type(device) != GGML_BACKEND_DEVICE_TYPE_CPU) devices_.push_back(device);
  }
  if (!options.devices.empty())
    devices_.push_back(nullptr);  // "none" or "CPU" alone: an empty list, so nothing is offloaded
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
  for (const std::string& text : options.tensor_overrides) {
    const auto equals = text.rfind('=');
    if (equals == text.npos || equals == 0) {
      return invalid(fmt::format("cannot read the tensor override '{}'; write pattern=buffer type", text));
    }
    TRY_ASSIGN(ggml_backend_buffer_type_t type, buffer_type_by_name(text.substr(equals + 1)));
    add(text.substr(0, equals), type);
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
  for (const std::string& text : options.kv_overrides) {
    TRY_ASSIGN(const llama_model_kv_override override, parse_kv_override(text));
    kv_overrides_.push_back(override);
  }
  return {};
}

Result<ModelParams> ModelParams::make(const ModelOptions& options) {
  ModelParams made;
  TRY(made.add_devices(options));
  TRY(made.add_tensor_overrides(options));
  TRY(made.add_kv_overrides(options));
  TRY_ASSIGN(made.params_.split_mode, parse_split_mode(options.split_mode));
  TRY_ASSIGN(made.params_.load_mode, parse_load_mode(options.load_mode));
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
  if (options.n_ctx != 0 && options.n_ctx < kLeastContext) {
    return invalid(fmt::format("a context of {} tokens is too small; at least {}", options.n_ctx, kLeastContext));
  }
  if (sequences > llama_max_parallel_sequences()) {
    return invalid(
        fmt::format("{} sequences are too many; libllama takes {}", sequences, llama_max_parallel_sequences()));
  }
  if (options.n_batch == 0 || options.n_ubatch == 0) return invalid("batch sizes must not be 0");
  // libllama reserves an output per sequence within one batch and aborts the process where they do not fit.
  if (options.n_batch < sequences) {
    return invalid(
        fmt::format("a batch of {} tokens is too small for {} sequences (running requests, idle "
                    "conversations and one to copy through)",
                    options.n_batch, sequences));
  }
  params.n_ctx = options.n_ctx;
  params.n_seq_max = sequences;
  params.n_batch = options.n_batch;
  params.n_ubatch = std::min(options.n_ubatch, options.n_batch);
  params.n_rs_seq = 0;       // rollback of recurrent state answers true with a wrong state past the last ubatch
  params.kv_unified = true;  // forks and range copies need one pool of cells
  params.offload_kqv = options.offload_kv;
  params.op_offload = options.operation_offload;
  params.swa_full = options.swa_full;
  params.no_perf = true;
  set_threads(options, params);
  TRY(set_kv_types(options, params));
  TRY(set_positions(options, params));
  return params;
}

}  // namespace kvkeep::engine::llama
