#include "serve_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "chat/builtin_templates.h"
#include "chat/chat_template.h"
#include "chat_flags.h"
#include "flag_values.h"
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
  return {
      {.group = "Model",
       .spelling = "-m, --model FILE",
       .environment = "LLAMA_ARG_MODEL",
       .default_text = "none, required",
       .effect = "GGUF file to serve; of a split model, the first part.",
       .assign = text_into(model.path)},
      {.spelling = "-a, --alias NAME,...",
       .environment = "LLAMA_ARG_ALIAS",
       .default_text = "the file's name",
       .effect = "Names of the model in the API; the first is the one replies show.",
       .assign = appended_to(model.aliases, parse_list)},
      {.spelling = "-lm, --load-mode MODE",
       .environment = "LLAMA_ARG_LOAD_MODE",
       .effect =
           "How weights come into memory: auto, none (plain reads), mmap, mlock (kept from swapping), mmap+mlock, dio "
           "(direct reads, past the page cache).",
       .assign = choice_into<LoadMode>(model.load_mode, {{"auto", LoadMode::kAuto},
                                                         {"none", LoadMode::kNone},
                                                         {"mmap", LoadMode::kMmap},
                                                         {"mlock", LoadMode::kMlock},
                                                         {"mmap+mlock", LoadMode::kMmapAndMlock},
                                                         {"dio", LoadMode::kDirect}})},
      {.spelling = "--repack, --no-repack, -nr",
       .environment = "LLAMA_ARG_REPACK",
       .effect =
           "Rearrange weights for this processor at load: faster, at the price of memory that is not shared with the "
           "page cache.",
       .assign = switch_into(model.repack)},
      {.spelling = "--no-host",
       .environment = "LLAMA_ARG_NO_HOST",
       .effect = "Do without pinned host buffers, so that other buffer types can be used.",
       .assign = switch_into(model.host_buffers, false)},
      {.spelling = "--check-tensors",
       .effect = "Refuse a model with invalid weights; reads all of them at start.",
       .assign = switch_into(model.check_tensors)},
      {.spelling = "--override-kv KEY=TYPE:VALUE,...",
       .effect = "Replace values of the model's metadata; types are int, float, bool and str.",
       .assign = appended_to(model.overrides, parse_metadata_overrides)},
      {.spelling = "--model-hash KIND",
       .effect =
           "How the model is recognised: fast reads metadata, tensor directory and samples of each tensor; full reads "
           "every byte.",
       .assign = choice_into<bool>(model.full_hash, {{"fast", false}, {"full", true}})},
      {.spelling = "--chat-template NAME",
       .environment = "LLAMA_ARG_CHAT_TEMPLATE",
       .default_text = "the model's own",
       .effect = fmt::format("Chat template to use instead: Jinja text, or one of {}.",
                             fmt::join(chat::builtin_template_names(), ", ")),
       .assign = template_into(model.chat_template)},
      {.spelling = "--chat-template-file FILE",
       .environment = "LLAMA_ARG_CHAT_TEMPLATE_FILE",
       .default_text = "the model's own",
       .effect = "Jinja chat template to use instead.",
       .assign = text_into(model.chat_template_file)},
      {.spelling = "--jinja",
       .environment = "LLAMA_ARG_JINJA",
       .effect = "Accepted: chat templates are always rendered by a Jinja engine.",
       .assign = always_so()},
  };
}

Result<std::vector<ScaledFile>> parse_plain_files(const std::string& text) {
  TRY_ASSIGN(const std::vector<std::string> paths, parse_list(text));
  std::vector<ScaledFile> files;
  for (const std::string& path : paths) files.push_back({path, 1.0F});
  return files;
}

std::vector<Flag> adapter_flags(ModelOptions& model) {
  return {
      {.group = "Adapters",
       .spelling = "--lora FILE,...",
       .effect = "LoRA adapters to apply to every request.",
       .assign = appended_to(model.loras, parse_plain_files)},
      {.spelling = "--lora-scaled FILE:SCALE,...",
       .effect = "LoRA adapters with a scale of their own.",
       .assign = appended_to(model.loras, parse_scaled_files)},
      {.spelling = "--control-vector FILE,...",
       .effect = "Control vectors to add.",
       .assign = appended_to(model.control_vectors, parse_plain_files)},
      {.spelling = "--control-vector-scaled FILE:SCALE,...",
       .effect = "Control vectors with a scale of their own.",
       .assign = appended_to(model.control_vectors, parse_scaled_files)},
      {.spelling = "--control-vector-layer-range START END",
       .default_text = "all layers",
       .effect = "Layers the control vectors apply to, both inclusive.",
       .assign = [&model](const std::string& text) -> Status {
         TRY_ASSIGN(const auto range, parse_layer_range(text));
         model.control_vector_layers = range;
         return {};
       }},
  };
}

std::vector<Flag> context_flags(ContextOptions& context) {
  return {
      {.group = "Context and computation",
       .spelling = "-c, --ctx-size N",
       .environment = "LLAMA_ARG_CTX_SIZE",
       .default_text = "0, from the model",
       .effect = "Tokens of context, shared by all running requests; 32k is 32768.",
       .assign = tokens_into(context.tokens, 0)},
      {.spelling = "-np, --parallel N",
       .environment = "LLAMA_ARG_N_PARALLEL",
       .default_text = "4",
       .effect = "Requests that decode at the same time; more wait their turn. -1 is the default.",
       .assign = number_or_automatic(context.parallel, context.parallel, 1, kParallelMax)},
      {.spelling = "-n, --n-predict, --predict N",
       .environment = "LLAMA_ARG_N_PREDICT",
       .default_text = "-1, until the context is full",
       .effect = "Most tokens of a reply whose request does not say.",
       .assign = number_or_automatic(context.predict_tokens, UINT32_MAX, 0, kTokensMax)},
      {.spelling = "-b, --batch-size N",
       .environment = "LLAMA_ARG_BATCH",
       .default_text = "2048",
       .effect = "Most tokens given to the model at once.",
       .assign = tokens_into(context.batch_tokens, 1)},
      {.spelling = "-ub, --ubatch-size N",
       .environment = "LLAMA_ARG_UBATCH",
       .default_text = "512, or --batch-size if that is less",
       .effect = "Most tokens computed at once: more is faster and takes memory. At most --batch-size.",
       .assign = tokens_into(context.ubatch_tokens, 1)},
      {.spelling = "-t, --threads N",
       .environment = "LLAMA_ARG_THREADS",
       .default_text = "0, one per physical core",
       .effect = "Threads that compute while decoding.",
       .assign = number_or_automatic(context.threads, 0, 0, kThreadsMax)},
      {.spelling = "-tb, --threads-batch N",
       .environment = "LLAMA_ARG_THREADS_BATCH",
       .default_text = "as --threads",
       .effect = "Threads that compute during prefill.",
       .assign = number_or_automatic(context.threads_batch, 0, 0, kThreadsMax)},
      {.spelling = "-fa, --flash-attn on|off|auto",
       .environment = "LLAMA_ARG_FLASH_ATTN",
       .default_text = "auto",
       .effect = "Flash attention. Off makes restoring slower: values then lie in columns.",
       .assign = parsed_into(context.flash_attention, parse_flash_attention)},
      {.spelling = "-ctk, --cache-type-k TYPE",
       .environment = "LLAMA_ARG_CACHE_TYPE_K",
       .default_text = "f16",
       .effect = "Type of the KV cache's keys: f32, f16, bf16, q8_0, q4_0, q4_1, iq4_nl, q5_0, q5_1.",
       .assign = parsed_into(context.key_type, parse_kv_type)},
      {.spelling = "-ctv, --cache-type-v TYPE",
       .environment = "LLAMA_ARG_CACHE_TYPE_V",
       .default_text = "f16",
       .effect = "Type of the KV cache's values; quantized ones need flash attention.",
       .assign = parsed_into(context.value_type, parse_kv_type)},
      {.spelling = "--swa-full",
       .environment = "LLAMA_ARG_SWA_FULL",
       .effect = "Keep everything in windowed layers instead of the last window: more memory.",
       .assign = switch_into(context.full_window)},
      {.spelling = "--warmup, --no-warmup",
       .environment = "LLAMA_ARG_WARMUP",
       .effect = "Run the model once before the first request.",
       .assign = switch_into(context.warmup)},
  };
}

std::vector<Flag> offload_flags(OffloadOptions& offload) {
  return {
      {.group = "Devices",
       .spelling = "-ngl, --gpu-layers, --n-gpu-layers auto|all|N",
       .environment = "LLAMA_ARG_N_GPU_LAYERS",
       .default_text = "auto",
       .effect = "Layers to keep on devices; auto takes as many as fit.",
       .assign = parsed_into(offload.layers, parse_gpu_layers)},
      {.spelling = "-dev, --device NAME,...",
       .environment = "LLAMA_ARG_DEVICE",
       .default_text = "all",
       .effect = "Devices to use, by the names --list-devices prints; none for the processor alone.",
       .assign = parsed_into(offload.devices, parse_list)},
      {.spelling = "--list-devices",
       .effect = "Print the devices and exit.",
       .assign = switch_into(offload.list_devices)},
      {.spelling = "-kvo, --kv-offload, --no-kv-offload, -nkvo",
       .environment = "LLAMA_ARG_KV_OFFLOAD",
       .effect = "Keep the KV cache on the device that computes with it.",
       .assign = switch_into(offload.kv_on_device)},
      {.spelling = "-ot, --override-tensor PATTERN=BUFFER,...",
       .environment = "LLAMA_ARG_OVERRIDE_TENSOR",
       .effect = "Put tensors whose names match into a buffer type, such as exps=CPU.",
       .assign = appended_to(offload.tensors, parse_tensor_overrides)},
      {.spelling = "-cmoe, --cpu-moe",
       .environment = "LLAMA_ARG_CPU_MOE",
       .effect = "Keep all experts of mixture models in host memory.",
       .assign = switch_into(offload.experts_on_cpu)},
      {.spelling = "-ncmoe, --n-cpu-moe N",
       .environment = "LLAMA_ARG_N_CPU_MOE",
       .effect = "Keep the experts of the first N layers in host memory.",
       .assign = number_into(offload.expert_layers_on_cpu, 0, 100'000)},
      {.spelling = "-sm, --split-mode none|layer|row|tensor",
       .environment = "LLAMA_ARG_SPLIT_MODE",
       .effect = "How several devices share the model: not at all, by layers, by rows, by tensors.",
       .assign = choice_into<SplitMode>(offload.split, {{"none", SplitMode::kNone},
                                                        {"layer", SplitMode::kLayer},
                                                        {"row", SplitMode::kRow},
                                                        {"tensor", SplitMode::kTensor}})},
      {.spelling = "-ts, --tensor-split N0,N1,...",
       .environment = "LLAMA_ARG_TENSOR_SPLIT",
       .default_text = "by free memory",
       .effect = "Share of the model per device, such as 3,1.",
       .assign = parsed_into(offload.split_shares, parse_shares)},
      {.spelling = "-mg, --main-gpu INDEX",
       .environment = "LLAMA_ARG_MAIN_GPU",
       .effect = "The device to use with --split-mode none, or for intermediate results with row.",
       .assign = number_into(offload.main_device, 0, 1'024)},
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
  return {
      {.group = "Prefix cache",
       .spelling = "-cram, --cache-ram MIB",
       .environment = "LLAMA_ARG_CACHE_RAM",
       .default_text = "a quarter of available memory, at most 8192",
       .effect =
           "Memory for cached state, what waits to be written included; 0 turns this tier off. With any value 64 MiB "
           "and "
           "two of the model's largest points may wait for the disk.",
       .assign = budget_into(cache.ram_mib)},
      {.spelling = "--kv-disk-dir DIR",
       .environment = kDiskDirectoryVariable,
       .default_text = "kvkeep under the user's cache home",
       .effect =
           "Directory of the cache on disk. Named, it must be usable; the default one is given up with a warning.",
       .assign = text_into(cache.disk_directory)},
      {.spelling = "--no-kv-disk",
       .effect = "Keep nothing on disk: a restart forgets everything.",
       .assign = switch_into(cache.use_disk, false)},
      {.spelling = "--kv-disk-space-mb MIB",
       .default_text = "a tenth of the free space, 1024 to 65536",
       .effect = "Disk space the cache may take.",
       .assign = budget_into(cache.disk_mib, "to keep nothing on disk, say --no-kv-disk")},
      {.spelling = "--kv-disk-reserve-mb MIB",
       .default_text = "1024, or 1 % of the file system if that is less",
       .effect = "Stop writing when the file system has less free space than this; 0: use all of it.",
       .assign = number_into(cache.disk_reserve_mib, std::uint64_t{0}, kMibMax)},
      {.spelling = "--kv-disk-write-mb-per-day MIB",
       .effect =
           "Most that is written to disk in a day: what saves most prefill per byte goes first, the rest waits in "
           "memory; "
           "0: no limit.",
       .assign = number_into(cache.disk_write_mib_per_day, std::uint64_t{0}, kMibMax)},
      {.spelling = "--kv-cache-ttl-hours N",
       .effect =
           "What no request used for so many hours is forgotten, in memory and on disk; 0: only for lack of room.",
       .assign = number_into(cache.hours_to_live, 0U, kHoursMax)},
      {.spelling = "--kv-cache-min-tokens N",
       .effect = "Conversations shorter than this are not stored on disk, and get no point.",
       .assign = number_into(cache.store_tokens_min, 0U, kTokensMax)},
      {.spelling = "--kv-cache-audit-minutes N",
       .effect =
           "While idle, compute a stored piece anew so often and stop using what is stored if it is wrong; 0: never.",
       .assign = number_into(cache.audit_minutes, 0.0, 1e6)},
      {.spelling = "--match token|text",
       .effect = "text: ids that were sampled here stand for the ids of the same text in a prompt; token: ids alone.",
       .assign = choice_into<bool>(cache.match_text, {{"token", false}, {"text", true}})},
      {.spelling = "--restore auto|always",
       .effect = "auto prefills instead of restoring where loading would take longer; always restores.",
       .assign = choice_into<bool>(cache.always_restore, {{"auto", false}, {"always", true}})},
      {.spelling = "--cache-prompt, --no-cache-prompt",
       .environment = "LLAMA_ARG_CACHE_PROMPT",
       .effect = "Use the cache for requests that do not say; off: they neither read nor write it.",
       .assign = switch_into(cache.cache_prompt)},
      {.spelling = "--cache-salt-file FILE",
       .effect = "Only servers with the same text in this file share cached state; cache_salt in requests sets apart "
                 "further.",
       .assign = text_into(cache.salt_file)},
      {.spelling = "--cache-salt-by-key",
       .effect = "Requests share cached state only with those of the same API key.",
       .assign = switch_into(cache.salt_by_key)},
  };
}

// docs/cuts.md explains them all.
std::vector<Flag> point_flags(CacheOptions& cache) {
  return {
      {.group = "Points (hybrid, recurrent, opaque and sliding-window models)",
       .spelling = "--kv-cache-anchor-user, --no-kv-cache-anchor-user",
       .effect = "Capture state where user turns begin; off: the length rule below decides.",
       .assign = switch_into(cache.anchor_user)},
      {.spelling = "--kv-cache-cold-max-tokens N",
       .default_text = "the context",
       .effect = "Capture the stable beginning only of prompts up to this length; 0: of none.",
       .assign = number_into(cache.cold_tokens_max, 0U, kTokensMax)},
      {.spelling = "--kv-cache-continued-interval-tokens N",
       .effect = "Capture state each time a prompt or reply grows past a multiple of this; 0: never.",
       .assign = number_into(cache.continued_interval_tokens, 0U, kTokensMax)},
      {.spelling = "--kv-cache-boundary-trim-tokens N",
       .effect = "Length rule: leave off so many tokens of a prompt's end,",
       .assign = number_into(cache.boundary_trim_tokens, 0U, kTokensMax)},
      {.spelling = "--kv-cache-boundary-align-tokens N",
       .effect = "then round down to a multiple of this.",
       .assign = number_into(cache.boundary_align_tokens, 0U, kTokensMax)},
      {.spelling = "--kv-disk-points-share PERCENT",
       .effect =
           "Most of the disk space that points, whole states and windows may take; beyond it they leave before rows.",
       .assign = number_into(cache.disk_points_percent, 0U, 100U)},
      {.spelling = "-ctxcp, --swa-checkpoints, --ctx-checkpoints N",
       .environment = "LLAMA_ARG_CTX_CHECKPOINTS",
       .default_text = "as many as the budgets hold",
       .effect = "Most points or windows captured for one prompt; 0: none.",
       .assign = number_into(cache.points_max, 0U, kTokensMax)},
      {.spelling = "-cms, --checkpoint-min-step N",
       .environment = "LLAMA_ARG_CHECKPOINT_MIN_SPACING_NT",
       .effect = "Least distance of a point from the one before, anchors and turns aside.",
       .assign = number_into(cache.point_step_min, 0U, kTokensMax)},
  };
}

std::vector<Flag> http_flags(ServeOptions& options) {
  server::HttpOptions& http = options.http;
  return {
      {.group = "Server",
       .spelling = "--host ADDRESS",
       .environment = "LLAMA_ARG_HOST",
       .default_text = "127.0.0.1",
       .effect = "Address to listen on; 0.0.0.0 or :: for every interface. Ask for a key then.",
       .assign = text_into(http.host)},
      {.spelling = "--port N",
       .environment = "LLAMA_ARG_PORT",
       .effect = "Port to listen on; 0 takes a free one and logs it.",
       .assign = number_into(http.port, 0, 65'535)},
      {.spelling = "--api-key KEY,...",
       .environment = "LLAMA_API_KEY",
       .effect = "Keys, one of which clients must send. Command lines are visible to other users: prefer a file.",
       .assign = appended_to(http.api_keys, parse_list)},
      {.spelling = "--api-key-file FILE",
       .environment = "LLAMA_ARG_API_KEY_FILE",
       .effect = "File with one key per line; lines starting with # are comments.",
       .assign = text_into(options.api_key_file)},
      {.spelling = "--allowed-hosts NAME,...",
       .default_text = "loopback names and --host",
       .effect = "Further host names under which clients reach this server, without port.",
       .assign = appended_to(http.allowed_hosts, parse_list)},
      {.spelling = "--allowed-origins ORIGIN,...",
       .effect = "Web pages that may use this server from a browser, such as http://localhost:3000.",
       .assign = appended_to(http.allowed_origins, parse_list)},
      {.spelling = "--threads-http N",
       .environment = "LLAMA_ARG_THREADS_HTTP",
       .default_text = "processors - 1, at least parallel + 2",
       .effect = "Requests parsed, rendered and tokenized side by side; those that wait or stream need no thread.",
       .assign = number_or_automatic(options.http_threads, 0, 1, 4'096)},
      {.spelling = "-to, --timeout SECONDS",
       .environment = "LLAMA_ARG_TIMEOUT",
       .default_text = "60",
       .effect = "A client's time to send its whole request, and to take each 64 KiB of a reply.",
       .assign = [&http](const std::string& text) -> Status {
         TRY_ASSIGN(const std::int64_t seconds, parse_number<std::int64_t>(text, 1, 86'400));
         http.limits.body_ms = http.limits.write_ms = seconds * 1'000;
         http.limits.header_ms = std::min(http.limits.header_ms, seconds * 1'000);
         return {};
       }},
      {.spelling = "--max-body-mb MIB",
       .default_text = "64",
       .effect = "Largest request body; larger ones are answered 413.",
       .assign = [&http](const std::string& text) -> Status {
         TRY_ASSIGN(const std::size_t mebibytes, parse_number<std::size_t>(text, 1, 4'096));
         http.body_bytes_max = mebibytes << 20;
         return {};
       }},
  };
}

std::vector<Flag> log_flags(LogOptions& log) {
  return {
      {.group = "Log",
       .spelling = "-lv, --verbosity, --log-verbosity N",
       .environment = "LLAMA_ARG_LOG_VERBOSITY",
       .effect = "0 and 1: errors, 2: warnings too, 3: information, 4 and 5: details.",
       .assign = number_into(log.verbosity, 0, 5)},
      {.spelling = "-v, --log-verbose, --verbose",
       .default_text = "off",
       .effect = "The same as --log-verbosity 5.",
       .assign = [&log](const std::string&) -> Status {
         log.verbosity = 5;
         return {};
       }},
      {.spelling = "--log-file FILE",
       .environment = "LLAMA_ARG_LOG_FILE",
       .effect = "Write the log there too.",
       .assign = text_into(log.file)},
      {.spelling = "--log-disable", .effect = "Write no log.", .assign = switch_into(log.disabled)},
      {.spelling = "--trace FILE",
       .effect = "Append one line of JSON per request: what was reused, from what it chose, and why no more.",
       .assign = text_into(log.trace_file)},
      {.spelling = "--trace-prompts",
       .effect = "Put whole requests and replies into the trace, so that kvkeep replay can play it, and a few tokens "
                 "into the "
                 "log where prompts part. Prompts are private.",
       .assign = switch_into(log.trace_prompts)},
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
