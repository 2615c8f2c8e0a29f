// Start scripts written for llama-server: each of its flags is obeyed or refused with a reason.

#include <gtest/gtest.h>

#include <cctype>
#include <iterator>
#include <set>
#include <sstream>

#include "serve_flags.h"

namespace kvkeep::cli {
namespace {

// The output of `llama-server --help`, of the release that libllama is taken from (cmake/Dependencies.cmake).
constexpr const char* kFlags = R"(
-h --help --usage --version -cl --cache-list --completion-bash -t --threads -tb --threads-batch -C --cpu-mask -Cr
--cpu-range --cpu-strict --prio --poll -Cb --cpu-mask-batch -Crb --cpu-range-batch --cpu-strict-batch --prio-batch
--poll-batch -c --ctx-size -n --predict --n-predict -b --batch-size -ub --ubatch-size --keep --swa-full -fa
--flash-attn --perf --no-perf -e --escape --no-escape --rope-scaling --rope-scale --rope-freq-base --rope-freq-scale
--yarn-orig-ctx --yarn-ext-factor --yarn-attn-factor --yarn-beta-slow --yarn-beta-fast -kvo --kv-offload -nkvo
--no-kv-offload --repack -nr --no-repack --no-host -ctk --cache-type-k -ctv --cache-type-v -dt --defrag-thold --rpc
-lm --load-mode -lzm --lazy-mode --numa -dev --device --list-devices -ot --override-tensor -cmoe --cpu-moe -ncmoe
--n-cpu-moe --moe-cache-mib -ncffn --n-cpu-ffn -ngl --gpu-layers --n-gpu-layers -sm --split-mode -ts --tensor-split
-mg --main-gpu -fit --fit -fitt --fit-target -fitc --fit-ctx --check-tensors --override-kv --op-offload
--no-op-offload --lora --lora-scaled --control-vector --control-vector-scaled --control-vector-layer-range -m
--model -mu --model-url -dr --docker-repo -hf -hfr --hf-repo -hff --hf-file -hft --hf-token --log-disable --log-file
--log-jsonl --no-log-jsonl --log-colors -v --verbose --log-verbose --offline -lv --verbosity --log-verbosity
--log-prefix --no-log-prefix --log-timestamps --no-log-timestamps --spec-draft-type-k -ctkd --cache-type-k-draft
--spec-draft-type-v -ctvd --cache-type-v-draft --samplers -s --seed --sampler-seq --sampling-seq --ignore-eos --temp
--temperature --top-k --top-p --min-p --top-nsigma --top-n-sigma --xtc-probability --xtc-threshold --typical
--typical-p --repeat-last-n --repeat-penalty --presence-penalty --frequency-penalty --dry-multiplier --dry-base
--dry-allowed-length --dry-penalty-last-n --dry-sequence-breaker --adaptive-target --adaptive-decay --dynatemp-range
--dynatemp-exp --mirostat --mirostat-lr --mirostat-ent -l --logit-bias --grammar --grammar-file -j --json-schema -jf
--json-schema-file -bs --backend-sampling --spec-draft-hf -hfd -hfrd --hf-repo-draft --spec-draft-threads -td
--threads-draft --spec-draft-threads-batch -tbd --threads-batch-draft --spec-draft-cpu-mask -Cd --cpu-mask-draft
--spec-draft-cpu-range -Crd --cpu-range-draft --spec-draft-cpu-strict --cpu-strict-draft --spec-draft-prio
--prio-draft --spec-draft-poll --poll-draft --spec-draft-cpu-mask-batch -Cbd --cpu-mask-batch-draft
--spec-draft-cpu-strict-batch --cpu-strict-batch-draft --spec-draft-prio-batch --prio-batch-draft
--spec-draft-poll-batch --poll-batch-draft --spec-draft-override-tensor -otd --override-tensor-draft
--spec-draft-cpu-moe -cmoed --cpu-moe-draft --spec-draft-n-cpu-moe --spec-draft-ncmoe -ncmoed --n-cpu-moe-draft
--spec-draft-n-max --spec-draft-n-min --spec-draft-n-ubatch --spec-synth-len --spec-synth-rates --spec-draft-p-split
--draft-p-split --spec-draft-p-min --draft-p-min --spec-draft-backend-sampling --no-spec-draft-backend-sampling
--spec-draft-sampling --spec-draft-device -devd --device-draft --spec-draft-ngl -ngld --gpu-layers-draft
--n-gpu-layers-draft --spec-draft-model -md --model-draft --spec-type --spec-ngram-mod-n-min --spec-ngram-mod-n-max
--spec-ngram-mod-n-match --spec-ngram-simple-size-n --spec-ngram-simple-size-m --spec-ngram-simple-min-hits
--spec-ngram-map-k-size-n --spec-ngram-map-k-size-m --spec-ngram-map-k-min-hits --spec-ngram-map-k4v-size-n
--spec-ngram-map-k4v-size-m --spec-ngram-map-k4v-min-hits --draft --draft-n --draft-max --draft-min --draft-n-min
--spec-ngram-size-n --spec-ngram-size-m --spec-ngram-min-hits -lcs --lookup-cache-static -lcd --lookup-cache-dynamic
--kv-unified-per-slot -ctxcp --ctx-checkpoints --swa-checkpoints -cms --checkpoint-min-step -cram --cache-ram -kvu
--kv-unified -no-kvu --no-kv-unified --cache-idle-slots --no-cache-idle-slots --context-shift --no-context-shift -r
--reverse-prompt -sp --special --warmup --no-warmup --pooling -np --parallel -cb --cont-batching -nocb
--no-cont-batching -mm --mmproj -mmu --mmproj-url --mmproj-auto --no-mmproj --no-mmproj-auto --mmproj-offload
--no-mmproj-offload -mmdev --mmproj-device --image-min-tokens --image-max-tokens --mtmd-batch-max-tokens --video-fps
--video-timestamp-interval --video-ffmpeg-dir -a --alias --tags --embd-normalize --host --port --reuse-port --path
--cors-origins --cors-methods --cors-headers --cors-credentials --no-cors-credentials --api-prefix --ui-config
--webui-config --ui-config-file --webui-config-file --ui-mcp-proxy --webui-mcp-proxy --no-ui-mcp-proxy
--no-webui-mcp-proxy --tools --tools-runtime --mcp-servers-config --mcp-servers-json -ag --agent -no-ag --no-agent
--ui --webui --no-ui --no-webui --embedding --embeddings --rerank --reranking --api-key --api-key-file
--ssl-key-file --ssl-cert-file --chat-template-kwargs -to --timeout --sse-ping-interval --threads-http
--cache-prompt --no-cache-prompt --cache-reuse --metrics --props --slots --no-slots --slot-save-path --media-path
--models-dir --models-preset --models-max --models-autoload --no-models-autoload --jinja --no-jinja
--reasoning-format -rea --reasoning --reasoning-effort --reasoning-budget --reasoning-budget-message
--reasoning-preserve --no-reasoning-preserve --chat-template --chat-template-file --skip-chat-parsing
--no-skip-chat-parsing --prefill-assistant --no-prefill-assistant -sps --slot-prompt-similarity
--lora-init-without-apply --sleep-idle-seconds --log-prompts-dir --embd-gemma-default --fim-qwen-1.5b-default
--fim-qwen-3b-default --fim-qwen-7b-default --fim-qwen-7b-spec --fim-qwen-14b-spec --fim-qwen-30b-default
--gpt-oss-20b-default --gpt-oss-120b-default --vision-gemma-4b-default --vision-gemma-12b-default --spec-default
)";
constexpr const char* kVariables = R"(
LLAMA_ARG_THREADS LLAMA_ARG_CTX_SIZE LLAMA_ARG_N_PREDICT LLAMA_ARG_BATCH LLAMA_ARG_UBATCH LLAMA_ARG_SWA_FULL
LLAMA_ARG_FLASH_ATTN LLAMA_ARG_PERF LLAMA_ARG_ROPE_SCALING_TYPE LLAMA_ARG_ROPE_SCALE LLAMA_ARG_ROPE_FREQ_BASE
LLAMA_ARG_ROPE_FREQ_SCALE LLAMA_ARG_YARN_ORIG_CTX LLAMA_ARG_YARN_EXT_FACTOR LLAMA_ARG_YARN_ATTN_FACTOR
LLAMA_ARG_YARN_BETA_SLOW LLAMA_ARG_YARN_BETA_FAST LLAMA_ARG_KV_OFFLOAD LLAMA_ARG_REPACK LLAMA_ARG_NO_HOST
LLAMA_ARG_CACHE_TYPE_K LLAMA_ARG_CACHE_TYPE_V LLAMA_ARG_DEFRAG_THOLD LLAMA_ARG_RPC LLAMA_ARG_LOAD_MODE
LLAMA_ARG_LAZY_MODE LLAMA_ARG_NUMA LLAMA_ARG_DEVICE LLAMA_ARG_OVERRIDE_TENSOR LLAMA_ARG_CPU_MOE LLAMA_ARG_N_CPU_MOE
LLAMA_ARG_MOE_CACHE_MIB LLAMA_ARG_N_CPU_FFN LLAMA_ARG_N_GPU_LAYERS LLAMA_ARG_SPLIT_MODE LLAMA_ARG_TENSOR_SPLIT
LLAMA_ARG_MAIN_GPU LLAMA_ARG_FIT LLAMA_ARG_FIT_TARGET LLAMA_ARG_FIT_CTX LLAMA_ARG_MODEL LLAMA_ARG_MODEL_URL
LLAMA_ARG_DOCKER_REPO LLAMA_ARG_HF_REPO LLAMA_ARG_HF_FILE HF_TOKEN LLAMA_ARG_LOG_FILE LLAMA_ARG_LOG_JSONL
LLAMA_ARG_LOG_COLORS LLAMA_ARG_OFFLINE LLAMA_ARG_LOG_VERBOSITY LLAMA_ARG_LOG_PREFIX LLAMA_ARG_LOG_TIMESTAMPS
LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_K LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_V LLAMA_ARG_TEMPERATURE LLAMA_ARG_TOP_K
LLAMA_ARG_TOP_P LLAMA_ARG_MIN_P LLAMA_ARG_REPEAT_PENALTY LLAMA_ARG_PRESENCE_PENALTY LLAMA_ARG_FREQUENCY_PENALTY
LLAMA_ARG_BACKEND_SAMPLING LLAMA_ARG_SPEC_DRAFT_HF_REPO LLAMA_ARG_SPEC_DRAFT_CPU_MOE LLAMA_ARG_SPEC_DRAFT_N_CPU_MOE
LLAMA_ARG_SPEC_DRAFT_N_MAX LLAMA_ARG_SPEC_DRAFT_N_MIN LLAMA_ARG_SPEC_DRAFT_N_UBATCH LLAMA_ARG_SPEC_SYNTH_LEN
LLAMA_ARG_SPEC_SYNTH_RATES LLAMA_ARG_SPEC_DRAFT_P_SPLIT LLAMA_ARG_SPEC_DRAFT_P_MIN
LLAMA_ARG_SPEC_DRAFT_BACKEND_SAMPLING LLAMA_ARG_SPEC_DRAFT_SAMPLING LLAMA_ARG_N_GPU_LAYERS_DRAFT
LLAMA_ARG_SPEC_DRAFT_MODEL LLAMA_ARG_SPEC_TYPE LLAMA_ARG_DRAFT_MAX LLAMA_ARG_DRAFT_MIN LLAMA_ARG_KV_UNIFIED_PER_SLOT
LLAMA_ARG_CTX_CHECKPOINTS LLAMA_ARG_CHECKPOINT_MIN_SPACING_NT LLAMA_ARG_CACHE_RAM LLAMA_ARG_KV_UNIFIED
LLAMA_ARG_CACHE_IDLE_SLOTS LLAMA_ARG_CONTEXT_SHIFT LLAMA_ARG_POOLING LLAMA_ARG_N_PARALLEL LLAMA_ARG_CONT_BATCHING
LLAMA_ARG_MMPROJ LLAMA_ARG_MMPROJ_URL LLAMA_ARG_MMPROJ_AUTO LLAMA_ARG_MMPROJ_OFFLOAD MTMD_BACKEND_DEVICE
LLAMA_ARG_IMAGE_MIN_TOKENS LLAMA_ARG_IMAGE_MAX_TOKENS LLAMA_ARG_MTMD_BATCH_MAX_TOKENS LLAMA_ARG_VIDEO_FPS
LLAMA_ARG_VIDEO_TIMESTAMP_INTERVAL LLAMA_ARG_VIDEO_FFMPEG_DIR LLAMA_ARG_ALIAS LLAMA_ARG_TAGS LLAMA_ARG_HOST
LLAMA_ARG_PORT LLAMA_ARG_REUSE_PORT LLAMA_ARG_STATIC_PATH LLAMA_ARG_CORS_ORIGINS LLAMA_ARG_CORS_METHODS
LLAMA_ARG_CORS_HEADERS LLAMA_ARG_CORS_CREDENTIALS LLAMA_ARG_API_PREFIX LLAMA_ARG_UI_CONFIG LLAMA_ARG_UI_CONFIG_FILE
LLAMA_ARG_UI_MCP_PROXY LLAMA_ARG_TOOLS LLAMA_ARG_TOOLS_RUNTIME LLAMA_ARG_MCP_SERVERS_CONFIG
LLAMA_ARG_MCP_SERVERS_JSON LLAMA_ARG_AGENT LLAMA_ARG_UI LLAMA_ARG_EMBEDDINGS LLAMA_ARG_RERANKING LLAMA_API_KEY
LLAMA_ARG_API_KEY_FILE LLAMA_ARG_SSL_KEY_FILE LLAMA_ARG_SSL_CERT_FILE LLAMA_ARG_CHAT_TEMPLATE_KWARGS
LLAMA_ARG_TIMEOUT LLAMA_ARG_SSE_PING_INTERVAL LLAMA_ARG_THREADS_HTTP LLAMA_ARG_CACHE_PROMPT LLAMA_ARG_CACHE_REUSE
LLAMA_ARG_ENDPOINT_METRICS LLAMA_ARG_ENDPOINT_PROPS LLAMA_ARG_ENDPOINT_SLOTS LLAMA_ARG_SLOT_SAVE_PATH
LLAMA_ARG_MODELS_DIR LLAMA_ARG_MODELS_PRESET LLAMA_ARG_MODELS_MAX LLAMA_ARG_MODELS_AUTOLOAD LLAMA_ARG_JINJA
LLAMA_ARG_THINK LLAMA_ARG_REASONING LLAMA_ARG_REASONING_EFFORT LLAMA_ARG_THINK_BUDGET LLAMA_ARG_THINK_BUDGET_MESSAGE
LLAMA_ARG_REASONING_PRESERVE LLAMA_ARG_CHAT_TEMPLATE LLAMA_ARG_CHAT_TEMPLATE_FILE LLAMA_ARG_SKIP_CHAT_PARSING
LLAMA_ARG_PREFILL_ASSISTANT
)";

std::set<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

// `obeyed`: without flags of which all values but one are refused.
std::set<std::string> known_names(bool obeyed = false) {
  ServeOptions options;
  const FlagSet known = serve_flags(options);
  std::set<std::string> names = {"--version"};
  for (const KnownFlag& flag : known.flags()) {
    if (obeyed && !flag.only.values.empty()) continue;
    names.insert(flag.name);
    names.insert(flag.aliases.begin(), flag.aliases.end());
    names.insert(flag.off_names.begin(), flag.off_names.end());
  }
  return names;
}

std::string serve_error(const std::vector<std::string>& arguments, const os::Environment& environment = {}) {
  const auto parsed = parse_serve(arguments, environment);
  return parsed ? "" : parsed.error().message;
}

TEST(RefusedFlags, EveryFlagOfLlamaServerIsKnownOrRefusedWithAReason) {
  const std::set<std::string> known = known_names();
  const std::set<std::string> theirs = words(kFlags);
  ASSERT_GT(theirs.size(), 300U);
  for (const std::string& name : theirs) {
    if (known.contains(name)) continue;
    EXPECT_TRUE(serve_error({name, "1"}).starts_with(name + " is not supported: ")) << serve_error({name, "1"});
  }
}

TEST(RefusedFlags, EveryVariableOfLlamaServerIsReadOrRefused) {
  ServeOptions options;
  const FlagSet known = serve_flags(options);
  for (const std::string& name : words(kVariables)) {
    for (const std::string& line : known.ignored_variables({{name, "1"}})) {
      EXPECT_NE(line.find(" sets nothing: -"), std::string::npos) << line;
    }
  }
}

// A refused name with a star must match no flag that is obeyed, and no misspelling of one.
TEST(RefusedFlags, NoObeyedFlagIsNearARefusal) {
  for (std::string name : known_names(/*obeyed=*/true)) {
    EXPECT_FALSE(serve_error({name}).find("is not supported") != std::string::npos) << name;
    if (name.size() < 8) continue;
    name.insert(name.size() - 2, 1, 'x');
    const std::string error = serve_error({name, "1"});
    EXPECT_TRUE(error.starts_with("unknown flag")) << error;
  }
}

TEST(RefusedFlags, VariablesOfRefusedFlags) {
  for (const char* name : {"LLAMA_ARG_NO_JINJA", "LLAMA_ARG_HF_REPO", "LLAMA_ARG_SSL_KEY_FILE", "LLAMA_ARG_API_PREFIX",
                           "LLAMA_ARG_NO_PREFILL_ASSISTANT"}) {
    EXPECT_NE(serve_error({}, {{name, "1"}}).find(" is set, but --"), std::string::npos) << name;
  }
  const char* jinja = "--no-jinja is not supported: templates are always rendered by a Jinja engine";
  EXPECT_NE(serve_error({}, {{"LLAMA_ARG_JINJA", "0"}}).find(jinja), std::string::npos);
  const os::Environment harmless = {
      {"LLAMA_ARG_MODEL", "m"}, {"LLAMA_ARG_JINJA", "1"}, {"LLAMA_ARG_CONT_BATCHING", "1"}, {"LLAMA_ARG_UI", "off"}};
  EXPECT_EQ(serve_error({}, harmless), "");
}

// They may be meant for another server on the machine, and replies are the same without them.
TEST(RefusedFlags, VariablesThatChangeNoAnswerAreWarnedOf) {
  const auto warnings = [](const os::Environment& environment) {
    os::Environment all = environment;
    all["LLAMA_ARG_MODEL"] = "m";
    const auto parsed = parse_serve({}, all);
    EXPECT_TRUE(parsed) << (parsed ? "" : parsed.error().message);
    return parsed ? parsed->options.ignored_variables : std::vector<std::string>{};
  };
  EXPECT_EQ(warnings({{"LLAMA_ARG_CTX_SISE", "4096"}}),
            std::vector<std::string>{"the environment variable LLAMA_ARG_CTX_SISE is not known here and sets nothing"});
  EXPECT_EQ(
      warnings({{"LLAMA_ARG_CACHE_REUSE", "256"}}),
      std::vector<std::string>{"the environment variable LLAMA_ARG_CACHE_REUSE sets nothing: --cache-reuse 256 is not "
                               "supported: shifted state is not what the model computes for the new position"});
  for (const char* name : {"LLAMA_ARG_VIDEO_FPS", "LLAMA_ARG_UI_CONFIG", "LLAMA_ARG_SPEC_DRAFT_MODEL",
                           "LLAMA_ARG_N_GPU_LAYERS_DRAFT", "LLAMA_ARG_NO_CONT_BATCHING"}) {
    const auto lines = warnings({{name, "1"}});
    ASSERT_EQ(lines.size(), 1U) << name;
    EXPECT_NE(lines.front().find(" sets nothing: --"), std::string::npos) << lines.front();
  }
  const auto lines = warnings({{"LLAMA_ARG_NO_CONT_BATCHING", "1"}});
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(lines.front().find("--no-cont-batching is not supported: requests are always batched"), std::string::npos);
  EXPECT_TRUE(
      warnings({{"LLAMA_ARG_ENDPOINT_SLOTS", "0"}, {"LLAMA_ARG_OFFLINE", "1"}, {"LLAMA_ARG_PERF", "1"}}).empty());
}

TEST(RefusedFlags, SayWhatToTypeInstead) {
  for (const auto& [name, part] :
       std::vector<std::pair<std::string, std::string>>{{"-nocb", "--parallel 1 runs one at a time"},
                                                        {"--no-perf", "leave it out"},
                                                        {"-sps", "leave it out"},
                                                        {"--hf-repo", "--model"},
                                                        {"--api-prefix", "paths start at the root"}}) {
    EXPECT_NE(serve_error({name}).find(part), std::string::npos) << serve_error({name});
  }
  for (const char* name : {"--mmproj", "--agent", "--log-jsonl"}) {
    EXPECT_EQ(serve_error({name}).find("leave it out"), std::string::npos) << serve_error({name});
  }
}

// They change nothing, so that start scripts written for llama-server start here.
TEST(AcceptedFlags, AskForWhatIsSoAnyway) {
  const std::vector<Flag> accepted = accepted_flags();
  ASSERT_GT(accepted.size(), 15U);
  for (const Flag& row : accepted) {
    const KnownFlag flag(row);
    EXPECT_TRUE(row.effect.starts_with("Accepted: ")) << row.effect;
    std::vector<std::string> names = flag.aliases;
    names.push_back(flag.name);
    names.insert(names.end(), flag.off_names.begin(), flag.off_names.end());
    for (const std::string& name : names) {
      std::vector<std::string> line = {"--model=m", name};
      if (!flag.value.empty()) line.push_back(flag.only.values.empty() ? "-1" : flag.only.values.front());
      EXPECT_EQ(serve_error(line), "");
    }
    if (flag.value.empty()) continue;
    const std::string error = serve_error({"--model=m", flag.name, "x"});
    EXPECT_NE(error, "") << flag.name;
    const bool named = error.starts_with(flag.name + " x is not supported: ");
    EXPECT_EQ(named, !flag.only.values.empty()) << error;
  }
}

TEST(RefusedFlags, SuggestedFlagsAreUnderstood) {
  std::size_t told = 0;
  for (const RefusedFlag& flag : refused_serve_flags()) {
    if (flag.instead.empty()) continue;
    ++told;
    std::istringstream text(flag.instead);
    std::vector<std::string> line{std::istream_iterator<std::string>(text), {}};
    const bool is_named = flag.reason.find(line.front().substr(0, line.front().find('='))) != std::string::npos;
    EXPECT_TRUE(is_named || flag.reason.empty()) << flag.reason;
    if (line.size() == 1 && line.front().find('=') == std::string::npos) line.emplace_back("1");  // their value
    line.insert(line.begin(), "--model=m");
    EXPECT_EQ(serve_error(line), "") << flag.instead;
  }
  EXPECT_GT(told, 3U);
}

TEST(RefusedFlags, TheSuggestedLineNamesAModelOnce) {
  for (const std::vector<std::string>& line : std::vector<std::vector<std::string>>{
           {"-hf", "a/b", "--hf-token", "t"}, {"--models-dir", "d", "--models-max", "2"}, {"--gpt-oss-20b-default"}}) {
    const std::string error = serve_error(line);
    EXPECT_TRUE(error.ends_with("serve --model=FILE")) << error;
  }
}

// Neither beside one that was given, however it was, nor for a slip.
TEST(RefusedFlags, TheSuggestedLineProposesNoSecondModel) {
  const auto suggested = [](const std::vector<std::string>& line) {
    const std::string error = serve_error(line);
    return error.substr(std::min(error.find("Try: "), error.size()));
  };
  EXPECT_EQ(suggested({"-m", "a.gguf", "-hf", "a/b"}), "Try: kvkeep serve -m a.gguf");
  EXPECT_EQ(suggested({"-hf", "a/b", "--model", "a.gguf"}), "Try: kvkeep serve --model a.gguf");
  EXPECT_EQ(suggested({"-hf", "a/b", "--model=a.gguf", "-c", "4k"}), "Try: kvkeep serve --model=a.gguf -c 4k");
  EXPECT_EQ(suggested({"-hf", "a/b", "a.gguf"}), "Try: kvkeep serve a.gguf");
  EXPECT_EQ(suggested({"a.gguf", "--modle", "b.gguf"}), "Try: kvkeep serve a.gguf");
  EXPECT_EQ(suggested({"-hf", "a/b", "--mmproj-url", "x", "--mmproj", "p.gguf"}),
            "Try: kvkeep serve --model=FILE --mmproj p.gguf");
  EXPECT_EQ(suggested({"-m", "a.gguf", "--lora", "x", "--lroa", "y"}), "Try: kvkeep serve -m a.gguf --lora x --lora y")
      << "may be given several times";
}

TEST(RefusedFlags, ReasonsAreOneLineAndFollowAColon) {
  for (const RefusedFlag& flag : refused_serve_flags()) {
    ASSERT_FALSE(flag.names.empty());
    EXPECT_EQ(flag.names.front().find('*'), std::string::npos) << "messages show it";
    EXPECT_FALSE(flag.reason.empty() && flag.instead.empty()) << flag.names.front();
    EXPECT_EQ(flag.reason.find_first_of("\n."), std::string::npos) << flag.reason;
    EXPECT_TRUE(flag.reason.empty() || std::islower(static_cast<unsigned char>(flag.reason.front())) != 0)
        << flag.reason;
  }
}

}  // namespace
}  // namespace kvkeep::cli
