#include "engine/llama/weights.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <string_view>
#include <utility>

#include "engine/gguf/model_identity.h"
#include "engine/llama/remote_devices.h"
#include "engine/sampling_settings.h"

namespace kvkeep::engine::llama {
namespace {

struct TensorsDeleter {
  void operator()(ggml_context* tensors) const { ggml_free(tensors); }
};

Result<std::string> file_hash(const std::string& path) {
  TRY_ASSIGN(const ModelHash hash, gguf::file_identity(open_linked, path));
  return hash.hex();
}

std::string adapter_text(const llama_adapter_lora& adapter, const char* key) {
  std::array<char, 512> value{};
  return llama_adapter_meta_val_str(&adapter, key, value.data(), value.size()) < 0 ? "" : value.data();
}

// A loaded adapter; the model owns it.
Result<llama_adapter_lora*> load_lora(const std::string& path, llama_model& model) {
  const std::uint64_t mark = log_mark();
  llama_adapter_lora* adapter = llama_adapter_lora_init(&model, path.c_str());
  if (adapter == nullptr) {
    return invalid(fmt::format("cannot use the LoRA adapter {}: {}", path, log_reason_since(mark)));
  }
  if (llama_adapter_get_alora_n_invocation_tokens(adapter) > 0) {
    return unsupported(
        fmt::format("cannot use the LoRA adapter {}: it is to be switched on by words of the prompt "
                    "(aLoRA), which is not supported",
                    path));
  }
  return adapter;
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

bool contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

// Turns libllama's reason into an error of the kind that tells the caller what to do.
Error load_error(const std::string& path, const std::string& reason) {
  const std::string message = fmt::format("cannot load {}: {}", path, reason.empty() ? "unknown reason" : reason);
  if (contains(reason, "No such file")) return not_found(fmt::format("cannot load {}: no such file", path));
  if (contains(reason, "unknown model architecture")) return unsupported(message);
  if (contains(reason, "unable to allocate") || contains(reason, "failed to allocate")) return no_space(message);
  return damaged(message);
}

struct ProgressState {
  const LoadProgress* report;
  bool stopped = false;
};

bool on_progress(float done, void* data) {
  auto* state = static_cast<ProgressState*>(data);
  if (*state->report && !(*state->report)(done)) state->stopped = true;
  return !state->stopped;
}

Result<ModelHandle> load_model(const std::string& path, ModelParams& params, const LoadProgress& progress) {
  ProgressState state{.report = &progress};
  params.params().progress_callback = on_progress;
  params.params().progress_callback_user_data = &state;
  const std::uint64_t mark = log_mark();
  ModelHandle model(llama_model_load_from_file(path.c_str(), params.bind()), ModelDeleter{});
  if (state.stopped) return aborted("loading was stopped");
  if (!model) return load_error(path, log_reason_since(mark));
  const bool has_text = llama_vocab_type(llama_model_get_vocab(model.get())) != LLAMA_VOCAB_TYPE_NONE;
  if (!has_text) return unsupported(path + " has no vocabulary: it neither generates text nor embeds it");
  return model;
}

// Chooses the values that depend on the machine: the context's length and the layers on devices.
Result<ModelOptions> resolve(ModelOptions options, const ModelShape& shape, ModelParams& params) {
  TRY_ASSIGN(const std::uint32_t context, choose_context(options, shape, measure_kv_room(options, params)));
  if (!options.n_ctx && context < shape.context_train_tokens) {
    spdlog::info("context of {} tokens: one of {} would take too much of the free memory; -c sets it", context,
                 shape.context_train_tokens);
  }
  options.n_ctx = context;
  options.gpu_layers = choose_gpu_layers(options, shape, params, context);
  params.params().n_gpu_layers = *options.gpu_layers;
  return options;
}

std::string metadata(const llama_model& model, const char* key) {
  std::vector<char> value(4096);
  const std::int32_t length = llama_model_meta_val_str(&model, key, value.data(), value.size());
  return length < 0 ? std::string() : std::string(value.data(), static_cast<std::size_t>(length));
}

ModelSampling sampling_of(const llama_model& model) {
  ModelSampling sampling;
  for (const std::string_view key : model_sampling_keys()) {
    std::string value = metadata(model, fmt::format("general.sampling.{}", key).c_str());
    if (!value.empty()) sampling.emplace(key, std::move(value));
  }
  return sampling;
}

std::string file_stem(std::string_view path) {
  path.remove_prefix(path.rfind('/') + 1);
  return std::string(path.substr(0, path.rfind('.')));
}

// "llama 26M Q8_0"
std::string summary_of(const llama_model& model) {
  const auto parameters = static_cast<double>(llama_model_n_params(&model));
  const std::string count =
      parameters >= 1e9 ? fmt::format("{:.1f}B", parameters / 1e9) : fmt::format("{:.0f}M", parameters / 1e6);
  constexpr std::string_view kGuessed = "(guessed) ";
  std::string_view type = llama_ftype_name(llama_model_ftype(&model));
  if (type.starts_with(kGuessed)) type.remove_prefix(kGuessed.size());
  return fmt::format("{} {} {}", metadata(model, "general.architecture"), count, type);
}

void add_devices(const Weights& weights, llama_context& context, Description& out) {
  const std::int32_t gpu_layers = *weights.options.gpu_layers;
  Computing computing{.gpu_layers = gpu_layers,
                      .all_layers = static_cast<std::int32_t>(weights.shape.layer_bytes.size()) + 1,
                      .threads = llama_n_threads(&context),
                      .threads_batch = llama_n_threads_batch(&context)};
  out.uses_gpu = gpu_layers > 0;
  for (ggml_backend_dev_t device : weights.params.offload_devices()) {
    if (!out.uses_gpu) break;
    computing.devices.push_back(
        fmt::format("{} ({})", ggml_backend_dev_name(device), ggml_backend_dev_description(device)));
  }
  out.devices = to_string(computing);
}

}  // namespace

Result<Weights> load_weights(const ModelOptions& given, const LoadProgress& progress) {
  start_library();
  if (given.numa) llama_numa_init(static_cast<ggml_numa_strategy>(*given.numa));
  TRY(add_rpc_servers(given.rpc_servers));
  TRY_ASSIGN(std::shared_ptr<ThreadPools> pools, ThreadPools::make(given));
  const AbortNet net(given.path);
  TRY_ASSIGN(ModelParams params, ModelParams::make(given));
  TRY(make_context_params(given, 1));  // a wrong option is found before gigabytes are read
  TRY_ASSIGN(ModelShape shape, read_model_shape(given.path));
  TRY_ASSIGN(ModelOptions options, resolve(given, shape, params));
  TRY_ASSIGN(ModelHandle model, load_model(options.path, params, progress));
  return Weights{.model = std::move(model),
                 .options = std::move(options),
                 .context_is_given = given.n_ctx.has_value(),
                 .shape = std::move(shape),
                 .params = std::move(params),
                 .pools = std::move(pools)};
}

Result<bool> can_generate(const Weights& weights) {
  if (!llama_model_has_decoder(weights.model.get())) return false;
  const AbortNet net(weights.options.path);
  ModelOptions small = weights.options;
  small.n_ctx = kLeastContext;
  small.n_ubatch = small.n_batch = kLeastContext;
  TRY_ASSIGN(const llama_context_params params, make_context_params(small, 1));
  TRY_ASSIGN(const ContextHandle context, make_context(params, *weights.model));
  return llama_get_memory(context.get()) != nullptr;
}

Result<ContextHandle> make_context(const llama_context_params& params, llama_model& model) {
  const std::uint64_t mark = log_mark();
  ContextHandle context(llama_init_from_model(&model, params));
  if (context) return context;
  const std::string reason = log_reason_since(mark);
  const std::string message = fmt::format("cannot make a context: {}", reason.empty() ? "unknown reason" : reason);
  return contains(reason, "allocate") ? no_space(message) : invalid(message);
}

bool set_scales(llama_context& context, std::vector<llama_adapter_lora*>& adapters, AdapterScales scales) {
  return adapters.empty() || llama_set_adapters_lora(&context, adapters.data(), adapters.size(), scales.data()) == 0;
}

AdapterScales scales_of(const std::vector<LoraAdapter>& adapters) {
  AdapterScales scales;
  for (const LoraAdapter& adapter : adapters) scales.push_back(adapter.scale);
  return scales;
}

Result<Loras> apply_loras(const ModelOptions& options, llama_model& model, llama_context& context) {
  Loras loras;
  for (const ScaledFile& file : options.loras) {
    const float scale = options.apply_loras ? file.scale : 0.0F;
    TRY_ASSIGN(const std::string hash, file_hash(file.path));
    TRY_ASSIGN(llama_adapter_lora* const adapter, load_lora(file.path, model));
    loras.handles.push_back(adapter);
    loras.adapters.push_back({file.path, scale, adapter_text(*adapter, "adapter.lora.task_name"),
                              adapter_text(*adapter, "adapter.lora.prompt_prefix")});
    loras.names.push_back(fmt::format("lora {} scale={}", hash, scale));
  }
  if (!set_scales(context, loras.handles, scales_of(loras.adapters))) {
    return invalid("libllama does not accept these LoRA adapters together");
  }
  return loras;
}

Result<std::optional<ControlVectors>> read_control_vectors(const ModelOptions& options, llama_model& model) {
  if (options.control_vectors.empty()) return std::optional<ControlVectors>();
  const std::int32_t layers = llama_model_n_layer(&model);
  const auto [from, to] = options.control_vector_layers.value_or(std::pair(0, 0));
  ControlVectors vectors{.names = {},
                         .sum = {},
                         .embedding_size = llama_model_n_embd(&model),
                         .first = std::max(from, 1),
                         .last = to > 0 ? to : layers};
  vectors.sum.resize(static_cast<std::size_t>(layers - 1) * static_cast<std::size_t>(vectors.embedding_size));
  for (const ScaledFile& option : options.control_vectors) {
    TRY_ASSIGN(const std::string hash, file_hash(option.path));
    TRY(add_control_vector(option, static_cast<std::size_t>(vectors.embedding_size), vectors.sum));
    vectors.names.push_back(
        fmt::format("control_vector {} strength={} layers={}..{}", hash, option.scale, vectors.first, vectors.last));
  }
  return std::optional(std::move(vectors));
}

Status set_control_vectors(llama_context& context, const ControlVectors& vectors) {
  const std::vector<float>& sum = vectors.sum;
  if (llama_set_adapter_cvec(&context, sum.data(), sum.size(), vectors.embedding_size, vectors.first, vectors.last)) {
    return invalid("libllama does not accept these control vectors");
  }
  return {};
}

Description describe(const Weights& weights, llama_context& context) {
  const llama_model& model = *weights.model;
  Description out;
  out.model_name = metadata(model, "general.name");
  if (out.model_name.empty()) out.model_name = file_stem(weights.options.path);
  out.model_path = weights.options.path;
  out.summary = summary_of(model);
  out.context_tokens = llama_n_ctx(&context);
  out.context_train_tokens = static_cast<std::uint32_t>(llama_model_n_ctx_train(&model));
  out.batch_tokens = llama_n_batch(&context);
  out.tokens_at_once = llama_n_ubatch(&context);
  out.embedding_input_size = static_cast<std::uint32_t>(llama_model_n_embd_inp(&model));
  out.embedding_size = static_cast<std::uint32_t>(llama_model_n_embd(&model));
  out.vocabulary_size = static_cast<std::uint32_t>(llama_vocab_n_tokens(llama_model_get_vocab(&model)));
  out.vocabulary_type = static_cast<int>(llama_vocab_type(llama_model_get_vocab(&model)));
  out.file_type = llama_ftype_name(llama_model_ftype(&model));
  out.parameters = llama_model_n_params(&model);
  out.model_bytes = llama_model_size(&model);
  out.sampling = sampling_of(model);
  if (const char* chat_template = llama_model_chat_template(&model, nullptr)) out.chat_template = chat_template;
  add_devices(weights, context, out);
  return out;
}

}  // namespace kvkeep::engine::llama
