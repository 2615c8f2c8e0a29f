// Flags of `serve` about the model: files to load, context, threads and devices.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "chat/builtin_templates.h"
#include "chat/chat_template.h"
#include "command_words.h"
#include "flag_values.h"
#include "serve_flags.h"

namespace kvkeep::cli {
namespace {

using engine::llama::KvType;
using engine::llama::LoadMode;
using engine::llama::ModelOptions;
using engine::llama::NumaPlacement;
using engine::llama::RopeScaling;
using engine::llama::ScaledFile;
using engine::llama::SplitMode;

constexpr std::uint32_t kParallelMax = 128;  // libllama takes 256; idle conversations and scratch need some
constexpr int kThreadsMax = 1'024;

Assign tokens_into(std::uint32_t& target, std::uint32_t lowest) {
  const auto parse = [lowest](const std::string& text) { return parse_tokens(text, lowest, kTokensMax); };
  return {parsed_into(target, parse).set, std::to_string(target)};
}

// A value below `least` means automatic.
Assign tokens_into(std::optional<std::uint32_t>& target, std::uint32_t lowest, std::uint32_t least) {
  return [=, &target](const std::string& text) -> Status {
    TRY_ASSIGN(target, parse_tokens(text, lowest, kTokensMax));
    if (*target < least) target.reset();
    return {};
  };
}

Assign kv_type_into(KvType& target) { return {parsed_into(target, parse_kv_type).set, std::string(to_string(target))}; }

Assign template_into(std::string& target) {
  return [&target](const std::string& text) -> Status {
    // A word that is no name is a slip, but a line may be a template that prints nothing but itself.
    const bool is_jinja = text.find_first_of("{ \n") != std::string::npos;
    std::optional<std::string> source = is_jinja ? text : chat::builtin_template(text);
    if (!source) {
      return invalid(fmt::format("'{}' is neither Jinja text nor a name that --help lists{}", text,
                                 did_you_mean(text, chat::builtin_template_names())));
    }
    // A template that parses without the model's tokens also parses with them.
    if (const auto parsed = chat::make_chat_template(*source, {}); !parsed) return parsed.error();
    target = *std::move(source);
    return {};
  };
}

Result<std::vector<ScaledFile>> parse_plain_files(const std::string& text) {
  TRY_ASSIGN(const std::vector<std::string> paths, parse_list(text));
  std::vector<ScaledFile> files;
  for (const std::string& path : paths) files.push_back({path, 1.0F});
  return files;
}

// libggml takes no other form of address, and no more servers.
constexpr std::size_t kRpcServersMax = 16;

Result<std::vector<std::string>> parse_rpc_servers(const std::string& text) {
  TRY_ASSIGN(std::vector<std::string> servers, parse_list(text));
  for (const std::string& server : servers) {
    const auto colon = server.find(':');
    if (colon == std::string::npos || colon == 0 || !parse_number(server.substr(colon + 1), 1, 65'535)) {
      return invalid(fmt::format("'{}' is not HOST:PORT", server));
    }
  }
  return servers;
}

}  // namespace

std::vector<Flag> model_flags(ServeOptions& options) {
  ModelOptions& model = options.model;
  ChatOptions& chat = options.chat;
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
       .effect = "Names of the model in the API; replies show the first in the alphabet.",
       .assign = appended_to(chat.model_names, parse_list)},
      {.spelling = "--tags WORD,...",
       .environment = "LLAMA_ARG_TAGS",
       .default_text = "none",
       .effect = "Words about the model that /v1/models shows; they change nothing.",
       .assign = appended_to(chat.model_tags, parse_list)},
      // Before --load-mode, which wins over them.
      {.spelling = "--mmap, --no-mmap",
       .environment = "LLAMA_ARG_MMAP",
       .default_text = "as --load-mode",
       .effect = "The same as --load-mode mmap, and none.",
       .assign = [&model](const std::string& text) -> Status {
         model.load_mode = text == "on" ? LoadMode::kMmap : LoadMode::kNone;
         return {};
       }},
      {.spelling = "--mlock",
       .environment = "LLAMA_ARG_MLOCK",
       .default_text = "as --load-mode",
       .effect = "The same as --load-mode mmap+mlock; with --no-mmap, as --load-mode mlock.",
       .assign = [&model](const std::string&) -> Status {
         model.load_mode = model.load_mode == LoadMode::kNone ? LoadMode::kMlock : LoadMode::kMmapAndMlock;
         return {};
       }},
      {.spelling = "-dio, --direct-io, --no-direct-io, -ndio",
       .environment = "LLAMA_ARG_DIO",
       .default_text = "as --load-mode",
       .effect = "The same as --load-mode dio; the off form takes that back.",
       .assign = [&model](const std::string& text) -> Status {
         if (text == "on") {
           model.load_mode = LoadMode::kDirect;
         } else if (model.load_mode == LoadMode::kDirect) {
           model.load_mode.reset();
         }
         return {};
       }},
      {.spelling = "-lm, --load-mode auto|none|mmap|mlock|mmap+mlock|dio",
       .environment = "LLAMA_ARG_LOAD_MODE",
       .effect = "How weights are loaded: none is plain reads, mlock keeps them from being swapped out, dio reads past "
                 "the page "
                 "cache.",
       .assign = choice_into(model.load_mode, {{"auto", std::nullopt},
                                               {"none", LoadMode::kNone},
                                               {"mmap", LoadMode::kMmap},
                                               {"mlock", LoadMode::kMlock},
                                               {"mmap+mlock", LoadMode::kMmapAndMlock},
                                               {"dio", LoadMode::kDirect}})},
      {.spelling = "--numa distribute|isolate|numactl",
       .environment = "LLAMA_ARG_NUMA",
       .default_text = "none",
       .effect = "On machines with several memory nodes: spread threads over all nodes, keep them on the node that "
                 "kvkeep started on, or keep to what numactl set.",
       .assign = choice_into(model.numa, {{"distribute", NumaPlacement::kDistribute},
                                          {"isolate", NumaPlacement::kIsolate},
                                          {"numactl", NumaPlacement::kNumactl}})},
      {.spelling = "--repack, --no-repack, -nr",
       .environment = "LLAMA_ARG_REPACK",
       .effect =
           "Rearrange weights for this processor at load: computes faster, but the weights no longer share memory with "
           "the page cache.",
       .assign = switch_into(model.repack)},
      {.spelling = "--no-host",
       .environment = "LLAMA_ARG_NO_HOST",
       .effect = "Do without pinned host buffers, so that other buffer types can be used.",
       .assign = switch_into(model.no_host)},
      {.spelling = "--check-tensors",
       .effect = "Refuse a model with invalid weights; this reads all of them at start.",
       .assign = switch_into(model.check_tensors)},
      {.spelling = "--override-kv KEY=TYPE:VALUE,...",
       .effect = "Replace values in the model's metadata; types are int, float, bool and str.",
       .assign = appended_to(model.kv_overrides, parse_metadata_overrides)},
      {.spelling = "--model-hash KIND",
       .effect =
           "How a model is recognised: fast reads all of its file once (in the background; before it serves with "
           "--share, or if stored state may be of another file of at most 1 GiB) and knows it again by inode, size "
           "and times; full reads every byte at each start.",
       .assign = choice_into(model.full_model_hash, {{"fast", false}, {"full", true}})},
      {.spelling = "--chat-template NAME",
       .environment = "LLAMA_ARG_CHAT_TEMPLATE",
       .default_text = "the model's own",
       .effect = fmt::format("Chat template to use instead: Jinja text, or one of {}.",
                             fmt::join(chat::builtin_template_names(), ", ")),
       .assign = template_into(chat.template_source)},
      {.spelling = "--chat-template-file FILE",
       .environment = "LLAMA_ARG_CHAT_TEMPLATE_FILE",
       .default_text = "the model's own",
       .effect = "Jinja chat template to use instead.",
       .assign = text_into(chat.template_file)},
      {.spelling = "--jinja",
       .environment = "LLAMA_ARG_JINJA",
       .effect = "Accepted: chat templates are always rendered by a Jinja engine.",
       .assign = always_so()},
  };
}

std::vector<Flag> adapter_flags(ModelOptions& model) {
  return {
      {.group = "Adapters",
       .spelling = "--lora FILE,...",
       .effect = "LoRA adapters to apply to requests that name no scales of their own.",
       .assign = appended_to(model.loras, parse_plain_files)},
      {.spelling = "--lora-scaled FILE:SCALE,...",
       .effect = "LoRA adapters with a scale each.",
       .assign = appended_to(model.loras, parse_scaled_files)},
      {.spelling = "--lora-init-without-apply",
       .effect = "Load LoRA adapters with scale 0: requests, or POST /lora-adapters, set other scales.",
       .assign = switch_into(model.apply_loras, /*when_on=*/false)},
      {.spelling = "--control-vector FILE,...",
       .effect = "Control vectors to add.",
       .assign = appended_to(model.control_vectors, parse_plain_files)},
      {.spelling = "--control-vector-scaled FILE:SCALE,...",
       .effect = "Control vectors with a scale each.",
       .assign = appended_to(model.control_vectors, parse_scaled_files)},
      {.spelling = "--control-vector-layer-range START END",
       .default_text = "all layers",
       .effect = "Layers that the control vectors apply to, both inclusive.",
       .assign = [&model](const std::string& text) -> Status {
         TRY_ASSIGN(model.control_vector_layers, parse_layer_range(text));
         return {};
       }},
  };
}

std::vector<Flag> context_flags(ServeOptions& options) {
  ModelOptions& model = options.model;
  return {
      {.group = "Context and computation",
       .spelling = "-c, --ctx, --ctx-size N",
       .environment = "LLAMA_ARG_CTX_SIZE",
       .default_text = "0, from the model",
       .effect = "Tokens of context, shared by all running requests; 32k is 32768.",
       .assign = tokens_into(model.n_ctx, 0, 1)},
      {.spelling = "-np, --parallel N",
       .environment = "LLAMA_ARG_N_PARALLEL",
       .effect = "Requests that decode at the same time; others wait their turn. -1 is the default.",
       .assign = number_or_default(model.parallel, 1, kParallelMax)},
      {.spelling = "-kvu, --kv-unified, --no-kv-unified, -no-kvu",
       .environment = "LLAMA_ARG_KV_UNIFIED",
       .default_text = "chosen while serving, one pool at first",
       .effect = "On: all running requests share one pool of cells, and prefixes in it. Off: each has --ctx-size / "
                 "--parallel cells of its own, as many as a prompt with its reply may have, and shares none. By "
                 "default requests have cells of their own while that is faster and they fit into them.",
       .assign = parsed_into(options.pool, [](const std::string& text) { return Result<bool>(text == "on"); })},
      {.spelling = "--repeatable",
       .effect = "Text at temperature 0 with the cache equals text without it, on processors with quantized keys and "
                 "values: cells as with --no-kv-unified, --swa-full, slices of prefill that end at multiples of "
                 "--ubatch-size and at cuts, and cached state of such servers only.",
       .assign = switch_into(model.repeatable)},
      {.spelling = "-n, --tokens, --n-predict, --predict N",
       .environment = "LLAMA_ARG_N_PREDICT",
       .default_text = "-1, until the context is full",
       .effect = "Most tokens in a reply, if the request does not say.",
       .assign = number_or_automatic(options.defaults.max_tokens, 0, kTokensMax, 0)},
      {.spelling = "--context-shift, --no-context-shift",
       .environment = "LLAMA_ARG_CONTEXT_SHIFT",
       .effect = "A reply that fills the context goes on: half of the tokens after those of --keep leave. Its rows are "
                 "approximate from then on, and not cached. Not for models that need points.",
       .assign = switch_into(options.shift_context)},
      {.spelling = "--keep N",
       .effect =
           "Tokens at the beginning of the context that stay when it shifts, if the request does not say; -1: all "
           "of the prompt.",
       .assign = number_into(options.defaults.kept_tokens, std::int64_t{-1}, std::int64_t{kTokensMax})},
      {.spelling = "-b, --batch-size N",
       .environment = "LLAMA_ARG_BATCH",
       .effect = "Most tokens given to the model at once.",
       .assign = tokens_into(model.n_batch, 1)},
      {.spelling = "-ub, --ubatch-size N",
       .environment = "LLAMA_ARG_UBATCH",
       .default_text = "512, or --batch-size if that is less",
       .effect = "Most tokens computed at once, at most --batch-size: more is faster and takes more memory.",
       .assign = tokens_into(model.n_ubatch, 1, 1)},
      {.spelling = "-t, --threads N",
       .environment = "LLAMA_ARG_THREADS",
       .default_text = "0, one per physical core",
       .effect = "Threads that compute during decode.",
       .assign = number_or_automatic(model.threads, 0, kThreadsMax, 1)},
      {.spelling = "-tb, --threads-batch N",
       .environment = "LLAMA_ARG_THREADS_BATCH",
       .default_text = "as --threads",
       .effect = "Threads that compute during prefill.",
       .assign = number_or_automatic(model.threads_batch, 0, kThreadsMax, 1)},
      {.spelling = "-fa, --flash-attn on|off|auto",
       .environment = "LLAMA_ARG_FLASH_ATTN",
       .default_text = "auto",
       .effect = "Flash attention. With off, restoring is slower, since values then lie in columns.",
       .assign = parsed_into(model.flash_attention, parse_on_off_auto)},
      {.spelling = "-ctk, --cache-type-k f32|f16|bf16|q8_0|q4_0|q4_1|iq4_nl|q5_0|q5_1",
       .environment = "LLAMA_ARG_CACHE_TYPE_K",
       .effect = "Type of cached keys.",
       .assign = kv_type_into(model.type_k)},
      {.spelling = "-ctv, --cache-type-v f32|f16|bf16|q8_0|q4_0|q4_1|iq4_nl|q5_0|q5_1",
       .environment = "LLAMA_ARG_CACHE_TYPE_V",
       .effect = "Type of cached values; quantized types need -fa.",
       .assign = kv_type_into(model.type_v)},
      {.spelling = "--swa-full",
       .environment = "LLAMA_ARG_SWA_FULL",
       .effect = "Keep all rows of sliding-window layers instead of the last window: takes more memory.",
       .assign = switch_into(model.swa_full)},
      {.spelling = "--warmup, --no-warmup",
       .environment = "LLAMA_ARG_WARMUP",
       .effect = "Run the model once before the first request.",
       .assign = switch_into(model.warmup)},
  };
}

std::vector<Flag> offload_flags(ServeOptions& options) {
  ModelOptions& model = options.model;
  return {
      {.group = "Devices",
       .spelling = "-ngl, --gpu-layers, --n-gpu-layers auto|all|N",
       .environment = "LLAMA_ARG_N_GPU_LAYERS",
       .default_text = "auto",
       .effect = "Layers to keep on devices; auto takes as many as fit.",
       .assign = parsed_into(model.gpu_layers, parse_gpu_layers)},
      {.spelling = "-fit, --fit on|off",
       .environment = "LLAMA_ARG_FIT",
       .effect =
           "on: layers (-ngl) and context (-c) that were not given follow from free memory; off: all layers lie on "
           "devices, and the context is the model's own.",
       .assign = choice_into(model.fit.enabled, {{"on", true}, {"off", false}})},
      {.spelling = "-fitt, --fit-target MIB,...",
       .environment = "LLAMA_ARG_FIT_TARGET",
       .default_text = "1024",
       .effect = "Memory that is left free on each device; the last number holds for all further ones.",
       .assign = [&model](const std::string& text) -> Status {
         TRY_ASSIGN(const std::vector<std::string> items, parse_list(text));
         model.fit.reserve_bytes.clear();
         for (const std::string& item : items) {
           TRY_ASSIGN(const ByteCount bytes, parse_mebibytes(item, 0));
           model.fit.reserve_bytes.push_back(bytes.value());
         }
         return {};
       }},
      {.spelling = "-fitc, --fit-ctx N",
       .environment = "LLAMA_ARG_FIT_CTX",
       .default_text = "4096 in host memory, the model's own on devices",
       .effect =
           "Least context that --fit may choose; layers that do not fit with it move to host memory. On devices it "
           "counts only where neither -ngl nor another flag places weights.",
       .assign = tokens_into(model.fit.least_context, engine::llama::kLeastContext, 1)},
      {.spelling = "--op-offload, --no-op-offload",
       .effect = "Compute large batches on a device also where the weights lie in host memory.",
       .assign = switch_into(model.operation_offload)},
      {.spelling = "--rpc HOST:PORT,...",
       .environment = "LLAMA_ARG_RPC",
       .effect =
           "Also use the devices of these RPC servers, on other machines. Nothing that goes there is encrypted; needs "
           "libggml's RPC backend.",
       .assign = {[&model](const std::string& text) -> Status {
                    TRY(appended_to(model.rpc_servers, parse_rpc_servers).set(text));
                    if (model.rpc_servers.size() <= kRpcServersMax) return {};
                    return invalid(fmt::format("more than {} servers", kRpcServersMax));
                  },
                  "none"}},
      {.spelling = "-dev, --device NAME,...",
       .environment = "LLAMA_ARG_DEVICE",
       .default_text = "all",
       .effect = "Devices to use, by the names that --list-devices prints; none: only the processor.",
       .assign = parsed_into(model.devices, parse_list)},
      {.spelling = "--list-devices",
       .effect = "Print the devices and exit.",
       .assign = switch_into(options.list_devices)},
      {.spelling = "-kvo, --kv-offload, --no-kv-offload, -nkvo",
       .environment = "LLAMA_ARG_KV_OFFLOAD",
       .effect = "Keep the KV cache on the device that computes with it.",
       .assign = switch_into(model.offload_kv)},
      {.spelling = "-ot, --override-tensor PATTERN=BUFFER,...",
       .environment = "LLAMA_ARG_OVERRIDE_TENSOR",
       .effect = "Put tensors whose names match PATTERN into a buffer type, such as exps=CPU.",
       .assign = appended_to(model.tensor_overrides, parse_tensor_overrides)},
      {.spelling = "-cmoe, --cpu-moe",
       .environment = "LLAMA_ARG_CPU_MOE",
       .effect = "Keep all experts of mixture models in host memory.",
       .assign = switch_into(model.cpu_moe)},
      {.spelling = "-ncmoe, --n-cpu-moe N",
       .environment = "LLAMA_ARG_N_CPU_MOE",
       .effect = "Keep the experts of the first N layers in host memory.",
       .assign = number_into(model.cpu_moe_layers, 0, 100'000)},
      {.spelling = "-sm, --split-mode none|layer|row|tensor",
       .environment = "LLAMA_ARG_SPLIT_MODE",
       .effect = "How several devices share the model: not at all, by layers, by rows, by tensors.",
       .assign = choice_into(model.split_mode, {{"none", SplitMode::kNone},
                                                {"layer", SplitMode::kLayer},
                                                {"row", SplitMode::kRow},
                                                {"tensor", SplitMode::kTensor}})},
      {.spelling = "-ts, --tensor-split N0,N1,...",
       .environment = "LLAMA_ARG_TENSOR_SPLIT",
       .default_text = "by free memory",
       .effect = "Share of the model per device, such as 3,1.",
       .assign = parsed_into(model.tensor_split, parse_shares)},
      {.spelling = "-mg, --main-gpu INDEX",
       .environment = "LLAMA_ARG_MAIN_GPU",
       .effect = "The device to use with --split-mode none, or for intermediate results with --split-mode row.",
       .assign = number_into(model.main_gpu, 0, 1'024)},
  };
}

std::vector<Flag> rope_flags(ModelOptions& model) {
  constexpr float kSmallest = 1e-6F;
  constexpr float kLargest = 1e12F;
  return {
      {.group = "RoPE",
       .spelling = "--rope-scaling none|linear|yarn",
       .environment = "LLAMA_ARG_ROPE_SCALING_TYPE",
       .default_text = "from the model",
       .effect = "How positions are scaled beyond the trained context.",
       .assign =
           choice_into(model.rope_scaling,
                       {{"none", RopeScaling::kNone}, {"linear", RopeScaling::kLinear}, {"yarn", RopeScaling::kYarn}})},
      {.spelling = "--rope-scale N",
       .environment = "LLAMA_ARG_ROPE_SCALE",
       .default_text = "from the model",
       .effect = "Context scaling factor; the same as --rope-freq-scale with 1/N.",
       .assign = [&model](const std::string& text) -> Status {
         TRY_ASSIGN(const float factor, parse_number(text, kSmallest, kLargest));
         model.rope_frequency_scale = 1.0F / factor;
         return {};
       }},
      {.spelling = "--rope-freq-base N",
       .environment = "LLAMA_ARG_ROPE_FREQ_BASE",
       .default_text = "from the model",
       .effect = "Base frequency.",
       .assign = number_into(model.rope_frequency_base, kSmallest, kLargest, kSmallest)},
      {.spelling = "--rope-freq-scale N",
       .environment = "LLAMA_ARG_ROPE_FREQ_SCALE",
       .default_text = "from the model",
       .effect = "Frequency scaling factor: expands the context by 1/N.",
       .assign = number_into(model.rope_frequency_scale, kSmallest, kLargest, kSmallest)},
      {.spelling = "--yarn-orig-ctx N",
       .environment = "LLAMA_ARG_YARN_ORIG_CTX",
       .default_text = "0, from the model",
       .effect = "Context that the model was trained with.",
       .assign = number_into(model.yarn_original_context, 0, kTokensMax, 1)},
      {.spelling = "--yarn-ext-factor N",
       .environment = "LLAMA_ARG_YARN_EXT_FACTOR",
       .default_text = "-1, from the model",
       .effect = "Extrapolation mix; 0 interpolates fully.",
       .assign = number_into(model.yarn_extrapolation, -1.0F, kLargest, 0.0F)},
      {.spelling = "--yarn-attn-factor N",
       .environment = "LLAMA_ARG_YARN_ATTN_FACTOR",
       .default_text = "-1, from the model",
       .effect = "Scale of the attention's magnitude.",
       .assign = number_into(model.yarn_attention, -1.0F, kLargest, 0.0F)},
      {.spelling = "--yarn-beta-slow N",
       .environment = "LLAMA_ARG_YARN_BETA_SLOW",
       .default_text = "-1, from the model",
       .effect = "High correction dimension.",
       .assign = number_into(model.yarn_beta_slow, -1.0F, kLargest, 0.0F)},
      {.spelling = "--yarn-beta-fast N",
       .environment = "LLAMA_ARG_YARN_BETA_FAST",
       .default_text = "-1, from the model",
       .effect = "Low correction dimension.",
       .assign = number_into(model.yarn_beta_fast, -1.0F, kLargest, 0.0F)},
  };
}

}  // namespace kvkeep::cli
