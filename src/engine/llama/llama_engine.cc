#include "engine/llama/llama_engine.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/result.h"
#include "engine/gguf/model_identity.h"
#include "engine/llama/fingerprint.h"
#include "engine/llama/library.h"
#include "engine/llama/llama_sampler.h"
#include "engine/llama/memory_class.h"
#include "engine/llama/model_file.h"
#include "engine/llama/model_options.h"
#include "engine/llama/model_params.h"
#include "engine/llama/state_parts.h"
#include "engine/sampling_settings.h"

namespace kvkeep::engine::llama {

namespace {

// Returns false if libllama does not accept the adapters together.
bool set_scales(llama_context& context, std::vector<llama_adapter_lora*>& adapters, AdapterScales scales) {
  return adapters.empty() || llama_set_adapters_lora(&context, adapters.data(), adapters.size(), scales.data()) == 0;
}

AdapterScales scales_of(const std::vector<LoraAdapter>& adapters) {
  AdapterScales scales;
  for (const LoraAdapter& adapter : adapters) scales.push_back(adapter.scale);
  return scales;
}

}  // namespace

LlamaEngine::LlamaEngine(Parts parts)
    : model_(std::move(parts.model)),
      context_(std::move(parts.context)),
      adapters_(std::move(parts.adapters)),
      memory_(std::move(parts.memory)),
      vocabulary_(std::move(parts.vocabulary)),
      description_(std::move(parts.description)),
      start_scales_(scales_of(description_.adapters)),
      chains_(*llama_model_get_vocab(model_.get()), description_.context_tokens) {
  const auto is_cancelled = [](void* engine) { return static_cast<LlamaEngine*>(engine)->cancelled_.load(); };
  llama_set_abort_callback(context_.get(), is_cancelled, this);
  used_scales_ = start_scales_;
}

void LlamaEngine::fill_batch(std::span<const BatchToken> batch) {
  const std::size_t size = batch.size();
  batch_tokens_.resize(size);
  batch_positions_.resize(size);
  batch_sequence_counts_.assign(size, 1);
  batch_sequences_.resize(size);
  batch_sequence_pointers_.resize(size);
  batch_logits_.resize(size);
  for (std::size_t i = 0; i < size; ++i) {
    batch_tokens_[i] = batch[i].token;
    batch_positions_[i] = static_cast<llama_pos>(batch[i].at.value());
    batch_sequences_[i] = batch[i].seq.value();
    batch_sequence_pointers_[i] = &batch_sequences_[i];
    batch_logits_[i] = batch[i].want_logits ? 1 : 0;
  }
}

// libllama would decode with the state of another position, or with none.
bool LlamaEngine::all_complete(std::span<const BatchToken> batch) const {
  return std::ranges::all_of(batch, [this](const BatchToken& entry) { return memory_->is_complete(entry.seq); });
}

void LlamaEngine::use_adapters(const AdapterScales& scales) {
  const AdapterScales& wanted = scales.empty() ? start_scales_ : scales;
  KVKEEP_ASSERT(wanted.size() == adapters_.size(), "each adapter has a scale");
  if (wanted == used_scales_) return;
  used_scales_ = wanted;
  KVKEEP_ASSERT(set_scales(*context_, adapters_, used_scales_), "libllama accepted these adapters before");
}

DecodeStatus LlamaEngine::decode(std::span<const BatchToken> batch) {
  KVKEEP_ASSERT(!batch.empty() && batch.size() <= description_.batch_tokens, "a batch has a size libllama takes");
  if (cancelled_) return DecodeStatus::kAborted;
  if (batch.size() > memory_->cells_available()) return DecodeStatus::kNoCells;
  if (!all_complete(batch)) {
    spdlog::error("decode refused: the state at a sequence's end was not restored");
    return DecodeStatus::kFailed;
  }
  fill_batch(batch);
  const llama_batch raw{.n_tokens = static_cast<std::int32_t>(batch.size()),
                        .token = batch_tokens_.data(),
                        .embd = nullptr,
                        .pos = batch_positions_.data(),
                        .n_seq_id = batch_sequence_counts_.data(),
                        .seq_id = batch_sequence_pointers_.data(),
                        .logits = batch_logits_.data()};
  const std::uint64_t mark = log_mark();
  const std::int32_t code = llama_decode(context_.get(), raw);
  if (code == 0) {
    note_decoded(batch);
    return DecodeStatus::kOk;
  }
  if (code == 1) return DecodeStatus::kNoCells;
  if (code != 2) spdlog::error("decode failed ({}): {}", code, log_reason_since(mark));
  drop_undecoded(batch);
  return code == 2 ? DecodeStatus::kAborted : DecodeStatus::kFailed;
}

void LlamaEngine::note_decoded(std::span<const BatchToken> batch) {
  for (const BatchToken& entry : batch) memory_->note_appended(entry.seq, 1);
  tokens_decoded_ += batch.size();
}

// Ubatches that were done before the stop left state: libllama's memory and the ledger must agree on it.
void LlamaEngine::drop_undecoded(std::span<const BatchToken> batch) {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const bool first = i == 0 || batch[i].seq != batch[i - 1].seq;
    if (first) memory_->drop_undecoded(batch[i].seq);
  }
}

std::span<const float> LlamaEngine::logits(std::size_t index) const {
  const float* row = llama_get_logits_ith(context_.get(), static_cast<std::int32_t>(index));
  KVKEEP_ASSERT(row != nullptr, "the batch entry wanted logits");
  return {row, description_.vocabulary_size};
}

TokenId LlamaEngine::sample(Sampler& sampler, std::size_t index) {
  return static_cast<LlamaSampler&>(sampler).sample(*context_, static_cast<std::int32_t>(index));
}

Result<std::unique_ptr<Sampler>> LlamaEngine::make_sampler(const SamplingParams& params) {
  const llama_vocab* vocabulary = llama_model_get_vocab(model_.get());
  TRY_ASSIGN(SamplerHandle chain, chains_.make(params));
  TRY_ASSIGN(auto sampler, LlamaSampler::make(*vocabulary, std::move(chain), params));
  return std::unique_ptr<Sampler>(std::move(sampler));
}

Status set_rows_bare(LlamaEngine& engine, SeqId seq, ByteSpan rows) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(rows.data());
  const std::size_t taken = llama_state_seq_set_data(&engine.context(), bytes, rows.size(), seq.value());
  if (taken != rows.size()) return io_error("libllama refused rows that it gave itself");
  return {};
}

// LlamaEngine::load: from options to a context whose memory class is proven.

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

struct Loras {
  std::vector<llama_adapter_lora*> handles;
  std::vector<LoraAdapter> adapters;
  std::vector<std::string> names;  // a line each, with a hash of the contents and the scale
};

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
  if (!has_text || !llama_model_has_decoder(model.get())) return unsupported(path + " is not a text generator");
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

Result<ContextHandle> make_context(const ModelOptions& options, llama_model& model, std::uint32_t sequences) {
  TRY_ASSIGN(const llama_context_params params, make_context_params(options, sequences));
  const std::uint64_t mark = log_mark();
  ContextHandle context(llama_init_from_model(&model, params));
  if (context) return context;
  const std::string reason = log_reason_since(mark);
  const std::string message = fmt::format("cannot make a context: {}", reason.empty() ? "unknown reason" : reason);
  return contains(reason, "allocate") ? no_space(message) : invalid(message);
}

// The tokens from which the state's parts are learnt. A batch of the usual size makes libllama allocate the memory that
// prompts will need.
std::vector<llama_token> first_tokens(const llama_context& context, const llama_model& model, bool warmup) {
  const llama_vocab* vocabulary = llama_model_get_vocab(&model);
  std::vector<llama_token> tokens{std::max(llama_vocab_bos(vocabulary), 0), std::max(llama_vocab_eos(vocabulary), 0)};
  if (warmup) tokens.resize(std::min(llama_n_ubatch(&context), llama_n_ctx(&context) / 2), tokens.front());
  return tokens;
}

// How many conversations the context is made for. The cost of a sequence is learnt in a small context.
Result<std::uint32_t> count_conversations(const ModelOptions& options, llama_model& model, MemoryClass memory_class) {
  const std::uint32_t running = std::max(options.parallel, 1U);
  if (memory_class == MemoryClass::kSliceable) return running + options.idle_sequences;
  if (memory_class == MemoryClass::kOpaque || memory_class == MemoryClass::kUncached) return running;
  ModelOptions small = options;
  small.n_ctx = kLeastContext;
  small.n_ubatch = small.n_batch = kLeastContext;
  TRY_ASSIGN(const ContextHandle context, make_context(small, model, 1));
  TRY_ASSIGN(const StateParts parts, learn_state_parts(*context, first_tokens(*context, model, false)));
  const std::uint32_t idle = affordable_idle_sequences(options.idle_sequences, parts.bytes_per_sequence);
  spdlog::debug("each sequence costs {:.1f} MiB: {} for running requests, {} for idle conversations",
                static_cast<double>(parts.bytes_per_sequence) / (1 << 20), running, idle);
  return running + idle;
}

// Learns the parts of the state in the model's own context, and corrects the verdict on its clone if they differ.
Result<StateParts> learn_parts(const ModelOptions& options, llama_context& context, ClassVerdict& verdict) {
  const llama_model& model = *llama_get_model(&context);
  TRY_ASSIGN(StateParts parts, learn_state_parts(context, first_tokens(context, model, options.warmup)));
  const MemoryClass proven = verdict.finding.memory_class;
  if (needs_scratch(proven) || proven == MemoryClass::kRecurrent) {
    if (parts.looks_like == proven) return parts;
    verdict = {.finding = {}, .reason = "the parts of the model's state differ from its clone's"};
  } else if (proven == MemoryClass::kOpaque && !verdict.tried) {
    const Status tried = try_whole_state(context, first_tokens(context, model, false));
    if (!tried) verdict = {.finding = {}, .reason = verdict.reason + "; " + tried.error().message};
  }
  return parts;
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

Description describe(const ModelOptions& options, const llama_model& model, const llama_context& context) {
  Description out;
  out.model_name = metadata(model, "general.name");
  if (out.model_name.empty()) out.model_name = file_stem(options.path);
  out.model_path = options.path;
  out.summary = summary_of(model);
  out.context_tokens = llama_n_ctx(&context);
  out.context_train_tokens = static_cast<std::uint32_t>(llama_model_n_ctx_train(&model));
  out.batch_tokens = llama_n_batch(&context);
  out.embedding_size = static_cast<std::uint32_t>(llama_model_n_embd(&model));
  out.vocabulary_size = static_cast<std::uint32_t>(llama_vocab_n_tokens(llama_model_get_vocab(&model)));
  out.parameters = llama_model_n_params(&model);
  out.model_bytes = llama_model_size(&model);
  out.sampling = sampling_of(model);
  if (const char* chat_template = llama_model_chat_template(&model, nullptr)) out.chat_template = chat_template;
  return out;
}

void add_devices(const ModelParams& params, const ModelShape& shape, std::int32_t gpu_layers, llama_context& context,
                 Description& out) {
  Computing computing{.gpu_layers = gpu_layers,
                      .all_layers = static_cast<std::int32_t>(shape.layer_bytes.size()) + 1,
                      .threads = llama_n_threads(&context),
                      .threads_batch = llama_n_threads_batch(&context)};
  out.uses_gpu = gpu_layers > 0;
  for (ggml_backend_dev_t device : params.offload_devices()) {
    if (!out.uses_gpu) break;
    computing.devices.push_back(
        fmt::format("{} ({})", ggml_backend_dev_name(device), ggml_backend_dev_description(device)));
  }
  out.devices = to_string(computing);
}

void add_memory_class(const ClassVerdict& verdict, const StateParts& parts, Description& out) {
  out.memory_class = verdict.finding.memory_class;
  out.memory_class_reason = verdict.reason;
  if (needs_scratch(out.memory_class)) out.row_bytes_per_token = parts.rows->bytes_per_token();
  if (out.memory_class == MemoryClass::kWindowed) out.window_bytes_per_token = parts.window->bytes_per_token();
  if (out.memory_class == MemoryClass::kHybrid || out.memory_class == MemoryClass::kRecurrent) {
    out.point_bytes = parts.point_bytes;
  }
}

Result<ModelHash> model_hash(const ModelOptions& options) {
  const auto depth = options.full_model_hash ? gguf::IdentityDepth::kFull : gguf::IdentityDepth::kSampled;
  return gguf::model_identity(open_linked, options.path, depth);
}

}  // namespace

Result<std::unique_ptr<LlamaEngine>> LlamaEngine::load(const ModelOptions& given, const LoadProgress& progress) {
  start_library();
  if (given.numa) llama_numa_init(static_cast<ggml_numa_strategy>(*given.numa));
  const AbortNet net(given.path);
  TRY_ASSIGN(ModelParams params, ModelParams::make(given));
  TRY(make_context_params(given, 1));  // a wrong option is found before gigabytes are read
  TRY_ASSIGN(const ModelShape shape, read_model_shape(given.path));
  TRY_ASSIGN(const ModelOptions options, resolve(given, shape, params));
  Parts parts;
  TRY_ASSIGN(parts.model, load_model(options.path, params, progress));
  llama_model& model = *parts.model;
  ClassVerdict verdict = find_memory_class(model, options);
  const MemoryClass memory_class = verdict.finding.memory_class;
  TRY_ASSIGN(const std::uint32_t conversations, count_conversations(options, model, memory_class));
  const std::uint32_t scratch = needs_scratch(memory_class) ? 1 : 0;
  TRY_ASSIGN(parts.context, make_context(options, model, conversations + scratch));
  FingerprintParts fingerprint{.devices = device_names(params, *options.gpu_layers, options.operation_offload)};
  fingerprint.rope_factors = rope_factors_in_use(shape, options.kv_overrides, llama_n_ctx_seq(parts.context.get()));
  TRY_ASSIGN(Loras loras, apply_loras(options, model, *parts.context));
  TRY_ASSIGN(const std::vector<std::string> vectors, apply_control_vectors(options, model, *parts.context));
  fingerprint.adapters = std::move(loras.names);
  fingerprint.adapters.insert(fingerprint.adapters.end(), vectors.begin(), vectors.end());
  parts.adapters = std::move(loras.handles);
  TRY_ASSIGN(const StateParts state, learn_parts(options, *parts.context, verdict));
  parts.memory = make_memory(*parts.context, conversations, state, verdict.finding);
  TRY_ASSIGN(parts.vocabulary, LlamaVocabulary::make(parts.model, options.path));
  TRY_ASSIGN(fingerprint.model, model_hash(options));
  fingerprint.memory_class = verdict.finding.memory_class;
  fingerprint.state = &state;
  fingerprint.sequences = llama_n_seq_max(parts.context.get());
  parts.description = describe(options, model, *parts.context);
  add_devices(params, shape, *options.gpu_layers, *parts.context, parts.description);
  add_memory_class(verdict, state, parts.description);
  parts.description.adapters = std::move(loras.adapters);
  parts.description.fingerprint_text = fingerprint_text(fingerprint_fields(options, fingerprint));
  parts.description.fingerprint = fingerprint_hash(parts.description.fingerprint_text);
  return std::unique_ptr<LlamaEngine>(new LlamaEngine(std::move(parts)));
}

}  // namespace kvkeep::engine::llama
