#include "serve_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "chat/builtin_templates.h"
#include "chat/chat_template.h"
#include "chat_flags.h"
#include "flag_binding.h"
#include "refused_flags.h"
#include "rope_flags.h"
#include "sampling_flags.h"
#include "suggest.h"

namespace kvkeep::cli {
namespace {

constexpr std::uint32_t kTokensMax = 1U << 30;
constexpr std::uint32_t kParallelMax = 128;  // libllama takes 256 sequences; idle ones and the scratch need theirs
constexpr int kThreadsMax = 1'024;
constexpr std::uint64_t kMibMax = std::uint64_t{1} << 40;
constexpr std::uint32_t kHoursMax = 1'000'000;

// `target`: a std::uint32_t, or an optional one.
template <typename Target>
Assign tokens_into(Target& target, std::uint32_t lowest) {
  return [=, &target](const std::string& text) -> Status {
    TRY_ASSIGN(target, parse_tokens(text, lowest, kTokensMax));
    return {};
  };
}

// In each row: group, name, aliases, names that turn it off, value, environment, default, effect, where it goes.

Assign template_into(std::string& target) {
  return [&target](const std::string& text) -> Status {
    const bool is_jinja = text.find("{{") != std::string::npos || text.find("{%") != std::string::npos;
    std::optional<std::string> source = is_jinja ? text : chat::builtin_template(text);
    if (!source) {
      return invalid(fmt::format("'{}' is no Jinja text and none of the names that --help lists{}", text,
                                 did_you_mean(text, chat::builtin_template_names())));
    }
    // Whether it parses does not depend on the model's tokens.
    if (const auto parsed = chat::make_chat_template(*source, {}); !parsed) return parsed.error();
    target = *std::move(source);
    return {};
  };
}

std::vector<Flag> model_flags(ModelOptions& model) {
  const char* group = "Model";
  return {
      row(group, "--model", {"-m"}, {}, "FILE", "LLAMA_ARG_MODEL", "none, required",
          "GGUF file to serve; of a split model, the first part.", text_into(model.path)),
      row(group, "--alias", {"-a"}, {}, "NAME,...", "LLAMA_ARG_ALIAS", "the file's name",
          "Names of the model in the API; the first is the one replies show.", appended_to(model.aliases, parse_list)),
      row(group, "--load-mode", {"-lm"}, {}, "MODE", "LLAMA_ARG_LOAD_MODE", "auto",
          "How weights come into memory: auto, none (plain reads), mmap, mlock (kept from swapping), mmap+mlock, dio "
          "(direct reads, past the page cache).",
          choice_into<LoadMode>(model.load_mode, {{"auto", LoadMode::kAuto},
                                                  {"none", LoadMode::kNone},
                                                  {"mmap", LoadMode::kMmap},
                                                  {"mlock", LoadMode::kMlock},
                                                  {"mmap+mlock", LoadMode::kMmapAndMlock},
                                                  {"dio", LoadMode::kDirect}})),
      row(group, "--repack", {}, {"--no-repack", "-nr"}, "", "LLAMA_ARG_REPACK", "on",
          "Rearrange weights for this processor at load: faster, at the price of memory that is not shared with the "
          "page cache.",
          switch_into(model.repack)),
      row(group, "--no-host", {}, {}, "", "LLAMA_ARG_NO_HOST", "off",
          "Do without pinned host buffers, so that other buffer types can be used.",
          switch_into(model.host_buffers, false)),
      row(group, "--check-tensors", {}, {}, "", "", "off",
          "Refuse a model with invalid weights; reads all of them at start.", switch_into(model.check_tensors)),
      row(group, "--override-kv", {}, {}, "KEY=TYPE:VALUE,...", "", "none",
          "Replace values of the model's metadata; types are int, float, bool and str.",
          appended_to(model.overrides, parse_metadata_overrides)),
      row(group, "--model-hash", {}, {}, "KIND", "", "fast",
          "How the model is recognised: fast reads metadata, tensor directory and samples of each tensor; full reads "
          "every byte.",
          choice_into<bool>(model.full_hash, {{"fast", false}, {"full", true}})),
      row(group, "--chat-template", {}, {}, "NAME", "LLAMA_ARG_CHAT_TEMPLATE", "the model's own",
          fmt::format("Chat template to use instead: Jinja text, or one of {}.",
                      fmt::join(chat::builtin_template_names(), ", ")),
          template_into(model.chat_template)),
      row(group, "--chat-template-file", {}, {}, "FILE", "LLAMA_ARG_CHAT_TEMPLATE_FILE", "the model's own",
          "Jinja chat template to use instead.", text_into(model.chat_template_file)),
      row(group, "--jinja", {}, {}, "", "LLAMA_ARG_JINJA", "on",
          "Accepted: chat templates are always rendered by a Jinja engine.",
          [](const std::string&) -> Status { return {}; }),
  };
}

Result<std::vector<ScaledFile>> parse_plain_files(const std::string& text) {
  TRY_ASSIGN(const std::vector<std::string> paths, parse_list(text));
  std::vector<ScaledFile> files;
  for (const std::string& path : paths) files.push_back({path, 1.0F});
  return files;
}

std::vector<Flag> adapter_flags(ModelOptions& model) {
  const char* group = "Adapters";
  return {
      row(group, "--lora", {}, {}, "FILE,...", "", "none", "LoRA adapters to apply to every request.",
          appended_to(model.loras, parse_plain_files)),
      row(group, "--lora-scaled", {}, {}, "FILE:SCALE,...", "", "none", "LoRA adapters with a scale of their own.",
          appended_to(model.loras, parse_scaled_files)),
      row(group, "--control-vector", {}, {}, "FILE,...", "", "none", "Control vectors to add.",
          appended_to(model.control_vectors, parse_plain_files)),
      row(group, "--control-vector-scaled", {}, {}, "FILE:SCALE,...", "", "none",
          "Control vectors with a scale of their own.", appended_to(model.control_vectors, parse_scaled_files)),
      row(group, "--control-vector-layer-range", {}, {}, "START END", "", "all layers",
          "Layers the control vectors apply to, both inclusive.",
          [&model](const std::string& text) -> Status {
            TRY_ASSIGN(const auto range, parse_layer_range(text));
            model.control_vector_layers = range;
            return {};
          }),
  };
}

std::vector<Flag> context_flags(ContextOptions& context) {
  const char* group = "Context and computation";
  return {
      row(group, "--ctx-size", {"-c"}, {}, "N", "LLAMA_ARG_CTX_SIZE", "0, from the model",
          "Tokens of context, shared by all running requests; 32k is 32768.", tokens_into(context.tokens, 0)),
      row(group, "--parallel", {"-np"}, {}, "N", "LLAMA_ARG_N_PARALLEL", "4",
          "Requests that decode at the same time; more wait their turn. -1 is the default.",
          number_or_automatic(context.parallel, context.parallel, 1, kParallelMax)),
      row(group, "--predict", {"-n", "--n-predict"}, {}, "N", "LLAMA_ARG_N_PREDICT", "-1, until the context is full",
          "Most tokens of a reply whose request does not say.",
          number_or_automatic(context.predict_tokens, UINT32_MAX, 0, kTokensMax)),
      row(group, "--batch-size", {"-b"}, {}, "N", "LLAMA_ARG_BATCH", "2048", "Most tokens given to the model at once.",
          tokens_into(context.batch_tokens, 1)),
      row(group, "--ubatch-size", {"-ub"}, {}, "N", "LLAMA_ARG_UBATCH", "512, or --batch-size if that is less",
          "Most tokens computed at once: more is faster and takes memory. At most --batch-size.",
          tokens_into(context.ubatch_tokens, 1)),
      row(group, "--threads", {"-t"}, {}, "N", "LLAMA_ARG_THREADS", "0, one per physical core",
          "Threads that compute while decoding.", number_or_automatic(context.threads, 0, 0, kThreadsMax)),
      row(group, "--threads-batch", {"-tb"}, {}, "N", "LLAMA_ARG_THREADS_BATCH", "as --threads",
          "Threads that compute during prefill.", number_or_automatic(context.threads_batch, 0, 0, kThreadsMax)),
      row(group, "--flash-attn", {"-fa"}, {}, "on|off|auto", "LLAMA_ARG_FLASH_ATTN", "auto",
          "Flash attention. Off makes restoring slower: values then lie in columns.",
          parsed_into(context.flash_attention, parse_flash_attention)),
      row(group, "--cache-type-k", {"-ctk"}, {}, "TYPE", "LLAMA_ARG_CACHE_TYPE_K", "f16",
          "Type of the KV cache's keys: f32, f16, bf16, q8_0, q4_0, q4_1, iq4_nl, q5_0, q5_1.",
          parsed_into(context.key_type, parse_kv_type)),
      row(group, "--cache-type-v", {"-ctv"}, {}, "TYPE", "LLAMA_ARG_CACHE_TYPE_V", "f16",
          "Type of the KV cache's values; quantized ones need flash attention.",
          parsed_into(context.value_type, parse_kv_type)),
      row(group, "--swa-full", {}, {}, "", "LLAMA_ARG_SWA_FULL", "off",
          "Keep everything in windowed layers instead of the last window: more memory.",
          switch_into(context.full_window)),
      row(group, "--warmup", {}, {"--no-warmup"}, "", "LLAMA_ARG_WARMUP", "on",
          "Run the model once before the first request.", switch_into(context.warmup)),
  };
}

std::vector<Flag> offload_flags(OffloadOptions& offload) {
  const char* group = "Devices";
  return {
      row(group, "--n-gpu-layers", {"-ngl", "--gpu-layers"}, {}, "auto|all|N", "LLAMA_ARG_N_GPU_LAYERS", "auto",
          "Layers to keep on devices; auto takes as many as fit.", parsed_into(offload.layers, parse_gpu_layers)),
      row(group, "--device", {"-dev"}, {}, "NAME,...", "LLAMA_ARG_DEVICE", "all",
          "Devices to use, by the names --list-devices prints; none for the processor alone.",
          parsed_into(offload.devices, parse_list)),
      row(group, "--list-devices", {}, {}, "", "", "off", "Print the devices and exit.",
          switch_into(offload.list_devices)),
      row(group, "--kv-offload", {"-kvo"}, {"--no-kv-offload", "-nkvo"}, "", "LLAMA_ARG_KV_OFFLOAD", "on",
          "Keep the KV cache on the device that computes with it.", switch_into(offload.kv_on_device)),
      row(group, "--override-tensor", {"-ot"}, {}, "PATTERN=BUFFER,...", "LLAMA_ARG_OVERRIDE_TENSOR", "none",
          "Put tensors whose names match into a buffer type, such as exps=CPU.",
          appended_to(offload.tensors, parse_tensor_overrides)),
      row(group, "--cpu-moe", {"-cmoe"}, {}, "", "LLAMA_ARG_CPU_MOE", "off",
          "Keep all experts of mixture models in host memory.", switch_into(offload.experts_on_cpu)),
      row(group, "--n-cpu-moe", {"-ncmoe"}, {}, "N", "LLAMA_ARG_N_CPU_MOE", "0",
          "Keep the experts of the first N layers in host memory.",
          number_into(offload.expert_layers_on_cpu, 0, 100'000)),
      row(group, "--split-mode", {"-sm"}, {}, "none|layer|row|tensor", "LLAMA_ARG_SPLIT_MODE", "layer",
          "How several devices share the model: not at all, by layers, by rows, by tensors.",
          choice_into<SplitMode>(offload.split, {{"none", SplitMode::kNone},
                                                 {"layer", SplitMode::kLayer},
                                                 {"row", SplitMode::kRow},
                                                 {"tensor", SplitMode::kTensor}})),
      row(group, "--tensor-split", {"-ts"}, {}, "N0,N1,...", "LLAMA_ARG_TENSOR_SPLIT", "by free memory",
          "Share of the model per device, such as 3,1.", parsed_into(offload.split_shares, parse_shares)),
      row(group, "--main-gpu", {"-mg"}, {}, "INDEX", "LLAMA_ARG_MAIN_GPU", "0",
          "The device to use with --split-mode none, or for intermediate results with row.",
          number_into(offload.main_device, 0, 1'024)),
  };
}

// A budget in MiB whose absence means "choose one".
Assign budget_into(std::optional<std::uint64_t>& target, const char* at_nothing = nullptr) {
  return [=, &target](const std::string& text) -> Status {
    if (text == "-1") return invalid("there is always a limit: say how many MiB");
    TRY_ASSIGN(target, parse_number(text, std::uint64_t{0}, kMibMax));
    return at_nothing == nullptr || *target > 0 ? Status{} : invalid(at_nothing);
  };
}

std::vector<Flag> cache_flags(CacheOptions& cache) {
  const char* group = "Prefix cache";
  return {
      row(group, "--cache-ram", {"-cram"}, {}, "MIB", "LLAMA_ARG_CACHE_RAM",
          "a quarter of available memory, at most 8192",
          "Memory for cached state, what waits to be written included; 0 turns this tier off. With any value 64 MiB "
          "and "
          "two of the model's largest points may wait for the disk.",
          budget_into(cache.ram_mib)),
      row(group, "--kv-disk-dir", {}, {}, "DIR", kDiskDirectoryVariable, "kvkeep under the user's cache home",
          "Directory of the cache on disk. Named, it must be usable; the default one is given up with a warning.",
          text_into(cache.disk_directory)),
      row(group, "--no-kv-disk", {}, {}, "", "", "off", "Keep nothing on disk: a restart forgets everything.",
          switch_into(cache.use_disk, false)),
      row(group, "--kv-disk-space-mb", {}, {}, "MIB", "", "a tenth of the free space, 1024 to 65536",
          "Disk space the cache may take.", budget_into(cache.disk_mib, "to keep nothing on disk, say --no-kv-disk")),
      row(group, "--kv-disk-reserve-mb", {}, {}, "MIB", "", "1024, or 1 % of the file system if that is less",
          "Stop writing when the file system has less free space than this; 0: use all of it.",
          number_into(cache.disk_reserve_mib, std::uint64_t{0}, kMibMax)),
      row(group, "--kv-disk-write-mb-per-day", {}, {}, "MIB", "", "0",
          "Most that is written to disk in a day: what saves most prefill per byte goes first, the rest waits in "
          "memory; "
          "0: no limit.",
          number_into(cache.disk_write_mib_per_day, std::uint64_t{0}, kMibMax)),
      row(group, "--kv-cache-ttl-hours", {}, {}, "N", "", "0",
          "What no request used for so many hours is forgotten, in memory and on disk; 0: only for lack of room.",
          number_into(cache.hours_to_live, 0U, kHoursMax)),
      row(group, "--kv-cache-min-tokens", {}, {}, "N", "", "32",
          "Conversations shorter than this are not stored on disk, and get no point.",
          number_into(cache.store_tokens_min, 0U, kTokensMax)),
      row(group, "--kv-cache-audit-minutes", {}, {}, "N", "", "10",
          "While idle, compute a stored piece anew so often and stop using what is stored if it is wrong; 0: never.",
          number_into(cache.audit_minutes, 0.0, 1e6)),
      row(group, "--match", {}, {}, "token|text", "", "text",
          "text: ids that were sampled here stand for the ids of the same text in a prompt; token: ids alone.",
          choice_into<bool>(cache.match_text, {{"token", false}, {"text", true}})),
      row(group, "--restore", {}, {}, "auto|always", "", "auto",
          "auto prefills instead of restoring where loading would take longer; always restores.",
          choice_into<bool>(cache.always_restore, {{"auto", false}, {"always", true}})),
      row(group, "--cache-prompt", {}, {"--no-cache-prompt"}, "", "LLAMA_ARG_CACHE_PROMPT", "on",
          "Use the cache for requests that do not say; off: they neither read nor write it.",
          switch_into(cache.cache_prompt)),
      row(group, "--cache-salt-file", {}, {}, "FILE", "", "none",
          "Only servers with the same text in this file share cached state; cache_salt in requests sets apart further.",
          text_into(cache.salt_file)),
      row(group, "--cache-salt-by-key", {}, {}, "", "", "off",
          "Requests share cached state only with those of the same API key.", switch_into(cache.salt_by_key)),
  };
}

// docs/cuts.md explains them all.
std::vector<Flag> point_flags(CacheOptions& cache) {
  const char* group = "Points (hybrid, recurrent, opaque and sliding-window models)";
  return {
      row(group, "--kv-cache-anchor-user", {}, {"--no-kv-cache-anchor-user"}, "", "", "on",
          "Capture state where user turns begin; off: the length rule below decides.", switch_into(cache.anchor_user)),
      row(group, "--kv-cache-cold-max-tokens", {}, {}, "N", "", "the context",
          "Capture the stable beginning only of prompts up to this length; 0: of none.",
          number_into(cache.cold_tokens_max, 0U, kTokensMax)),
      row(group, "--kv-cache-continued-interval-tokens", {}, {}, "N", "", "2048",
          "Capture state each time a prompt or reply grows past a multiple of this; 0: never.",
          number_into(cache.continued_interval_tokens, 0U, kTokensMax)),
      row(group, "--kv-cache-boundary-trim-tokens", {}, {}, "N", "", "32",
          "Length rule: leave off so many tokens of a prompt's end,",
          number_into(cache.boundary_trim_tokens, 0U, kTokensMax)),
      row(group, "--kv-cache-boundary-align-tokens", {}, {}, "N", "", "2048", "then round down to a multiple of this.",
          number_into(cache.boundary_align_tokens, 0U, kTokensMax)),
      row(group, "--kv-disk-points-share", {}, {}, "PERCENT", "", "100",
          "Most of the disk space that points, whole states and windows may take; beyond it they leave before rows.",
          number_into(cache.disk_points_percent, 0U, 100U)),
      row(group, "--ctx-checkpoints", {"-ctxcp", "--swa-checkpoints"}, {}, "N", "LLAMA_ARG_CTX_CHECKPOINTS",
          "as many as the budgets hold", "Most points or windows captured for one prompt; 0: none.",
          number_into(cache.points_max, 0U, kTokensMax)),
      row(group, "--checkpoint-min-step", {"-cms"}, {}, "N", "LLAMA_ARG_CHECKPOINT_MIN_SPACING_NT", "32",
          "Least distance of a point from the one before, anchors and turns aside.",
          number_into(cache.point_step_min, 0U, kTokensMax)),
  };
}

std::vector<Flag> http_flags(ServeOptions& options) {
  const char* group = "Server";
  server::HttpOptions& http = options.http;
  return {
      row(group, "--host", {}, {}, "ADDRESS", "LLAMA_ARG_HOST", "127.0.0.1",
          "Address to listen on; 0.0.0.0 or :: for every interface. Ask for a key then.", text_into(http.host)),
      row(group, "--port", {}, {}, "N", "LLAMA_ARG_PORT", "8080", "Port to listen on; 0 takes a free one and logs it.",
          number_into(http.port, 0, 65'535)),
      row(group, "--api-key", {}, {}, "KEY,...", "LLAMA_API_KEY", "none",
          "Keys, one of which clients must send. Command lines are visible to other users: prefer a file.",
          appended_to(http.api_keys, parse_list)),
      row(group, "--api-key-file", {}, {}, "FILE", "LLAMA_ARG_API_KEY_FILE", "none",
          "File with one key per line; lines starting with # are comments.", text_into(options.api_key_file)),
      row(group, "--allowed-hosts", {}, {}, "NAME,...", "", "loopback names and --host",
          "Further host names under which clients reach this server, without port.",
          appended_to(http.allowed_hosts, parse_list)),
      row(group, "--allowed-origins", {}, {}, "ORIGIN,...", "", "none",
          "Web pages that may use this server from a browser, such as http://localhost:3000.",
          appended_to(http.allowed_origins, parse_list)),
      row(group, "--threads-http", {}, {}, "N", "LLAMA_ARG_THREADS_HTTP", "processors - 1, at least parallel + 2",
          "Requests parsed, rendered and tokenized side by side; those that wait or stream need no thread.",
          number_or_automatic(options.http_threads, 0, 1, 4'096)),
      row(group, "--timeout", {"-to"}, {}, "SECONDS", "LLAMA_ARG_TIMEOUT", "60",
          "A client's time to send its whole request, and to take each 64 KiB of a reply.",
          [&http](const std::string& text) -> Status {
            TRY_ASSIGN(const std::int64_t seconds, parse_number<std::int64_t>(text, 1, 86'400));
            http.limits.body_ms = http.limits.write_ms = seconds * 1'000;
            http.limits.header_ms = std::min(http.limits.header_ms, seconds * 1'000);
            return {};
          }),
      row(group, "--max-body-mb", {}, {}, "MIB", "", "64", "Largest request body; larger ones are answered 413.",
          [&http](const std::string& text) -> Status {
            TRY_ASSIGN(const std::size_t mebibytes, parse_number<std::size_t>(text, 1, 4'096));
            http.body_bytes_max = mebibytes << 20;
            return {};
          }),
  };
}

std::vector<Flag> log_flags(LogOptions& log) {
  const char* group = "Log";
  return {
      row(group, "--log-verbosity", {"-lv", "--verbosity"}, {}, "N", "LLAMA_ARG_LOG_VERBOSITY", "3",
          "0 and 1: errors, 2: warnings too, 3: information, 4 and 5: details.", number_into(log.verbosity, 0, 5)),
      row(group, "--verbose", {"-v", "--log-verbose"}, {}, "", "", "off", "The same as --log-verbosity 5.",
          [&log](const std::string&) -> Status {
            log.verbosity = 5;
            return {};
          }),
      row(group, "--log-file", {}, {}, "FILE", "LLAMA_ARG_LOG_FILE", "none", "Write the log there too.",
          text_into(log.file)),
      row(group, "--log-disable", {}, {}, "", "", "off", "Write no log.", switch_into(log.disabled)),
      row(group, "--trace", {}, {}, "FILE", "", "none",
          "Append one line of JSON per request: what was reused, from what it chose, and why no more.",
          text_into(log.trace_file)),
      row(group, "--trace-prompts", {}, {}, "", "", "off",
          "Put whole requests and replies into the trace, so that kvkeep replay can play it, and a few tokens into the "
          "log where prompts part. Prompts are private.",
          switch_into(log.trace_prompts)),
  };
}

// What single flags cannot see.
Status validate(const ServeOptions& options) {
  if (options.offload.list_devices) return {};
  if (options.model.path.empty()) return invalid("no model: name a GGUF file with --model FILE");
  if (options.context.ubatch() > options.context.batch_tokens) {
    return invalid(fmt::format("--ubatch-size {} is larger than --batch-size {}", options.context.ubatch(),
                               options.context.batch_tokens));
  }
  const std::string& value_type = options.context.value_type;
  const bool quantized = value_type != "f32" && value_type != "f16" && value_type != "bf16";
  if (quantized && options.context.flash_attention == FlashAttention::kOff) {
    return invalid("--cache-type-v " + value_type + " needs flash attention; drop --flash-attn off");
  }
  if (!options.cache.use_disk && !options.cache.disk_directory.empty()) {
    return invalid("--no-kv-disk and --kv-disk-dir contradict each other");
  }
  if (options.model.control_vector_layers && options.model.control_vectors.empty()) {
    return invalid("--control-vector-layer-range needs a --control-vector");
  }
  if (options.log.trace_prompts && options.log.trace_file.empty()) {
    return invalid("--trace-prompts needs --trace FILE");
  }
  return {};
}

}  // namespace

FlagSet serve_flags(ServeOptions& options) {
  std::vector<Flag> all;
  for (std::vector<Flag> group :
       {model_flags(options.model), context_flags(options.context), offload_flags(options.offload),
        cache_flags(options.cache), point_flags(options.cache), chat_flags(options), http_flags(options),
        sampling_flags(options.sampling), adapter_flags(options.model), rope_flags(options.context.rope),
        log_flags(options.log)}) {
    std::ranges::move(group, std::back_inserter(all));
  }
  return FlagSet("kvkeep serve --model FILE [flags]",
                 "Serves a GGUF model over HTTP and never prefills a known prefix twice.", std::move(all),
                 refused_serve_flags());
}

namespace {

bool names_model(const std::string& argument) {
  return argument == "-m" || argument == "--model" || argument.starts_with("--model=");
}

// "kvkeep serve model.gguf". Anything else that belongs to no flag is a slip, such as the value of a switch.
Status take_model(const std::vector<std::string>& arguments, const std::vector<std::string>& words,
                  std::string& model) {
  if (words.empty()) return {};
  const std::string& word = words.front();
  const bool is_file = word.ends_with(".gguf") || word.find('/') != std::string::npos;
  const bool is_named = std::ranges::any_of(arguments, names_model);
  if (words.size() > 1 || is_named || !is_file) {
    return invalid("unexpected argument '" + (words.size() > 1 && is_file && !is_named ? words[1] : word) + "'" +
                   (is_named || is_file ? "" : "; a model is named with --model FILE"));
  }
  model = word;
  return {};
}

}  // namespace

Result<ParsedServe> parse_serve(const std::vector<std::string>& arguments, const os::Environment& environment) {
  ParsedServe parsed;
  const FlagSet known = serve_flags(parsed.options);
  os::Environment read = environment;
  // A directory for all servers of a user is no reason against one that is to keep nothing.
  if (std::ranges::find(arguments, "--no-kv-disk") != arguments.end()) read.erase(kDiskDirectoryVariable);
  std::vector<std::string> words;
  TRY_ASSIGN(parsed.wants_help, known.parse(arguments, read, &words));
  if (!parsed.wants_help) TRY(take_model(arguments, words, parsed.options.model.path));
  parsed.options.ignored_variables = known.ignored_variables(environment);
  if (!parsed.wants_help) TRY(validate(parsed.options));
  return parsed;
}

std::string serve_help() {
  ServeOptions options;
  return serve_flags(options).help();
}

}  // namespace kvkeep::cli
