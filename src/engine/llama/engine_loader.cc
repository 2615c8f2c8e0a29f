// LlamaEngine::load: from options to a context whose memory class is proven.

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "engine/gguf/model_identity.h"
#include "engine/llama/adapters.h"
#include "engine/llama/fingerprint.h"
#include "engine/llama/gguf_file.h"
#include "engine/llama/library.h"
#include "engine/llama/llama_engine.h"
#include "engine/llama/memory_class.h"
#include "engine/llama/model_params.h"
#include "engine/llama/model_shape.h"
#include "engine/llama/offload.h"
#include "engine/llama/state_parts.h"
#include "os/machine.h"

namespace kvkeep::engine::llama {
namespace {

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
  const bool kv_on_devices = !params.offload_devices().empty() && options.offload_kv && options.gpu_layers != 0;
  const auto available = os::available_memory();
  const std::uint64_t host_bytes = kv_on_devices || !available ? 0 : available->value();
  TRY_ASSIGN(const std::uint32_t context, choose_context(options, shape, host_bytes));
  if (!options.n_ctx && context < shape.context_train_tokens) {
    spdlog::info("context of {} tokens: one of {} would take more than half of the free memory; -c sets it", context,
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
  FingerprintParts fingerprint{.devices = device_names(params, *options.gpu_layers)};
  fingerprint.rope_factors = rope_factors_in_use(shape, options.kv_overrides, llama_n_ctx_seq(parts.context.get()));
  TRY_ASSIGN(fingerprint.adapters, apply_adapters(options, model, *parts.context));
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
  parts.description.fingerprint_text = fingerprint_text(fingerprint_fields(options, fingerprint));
  parts.description.fingerprint = fingerprint_hash(parts.description.fingerprint_text);
  return std::unique_ptr<LlamaEngine>(new LlamaEngine(std::move(parts)));
}

}  // namespace kvkeep::engine::llama
