#include <algorithm>
#include <iterator>

#include "serve_flags.h"

namespace kvkeep::cli {
namespace {

// Rows: names (messages show the first), environment variables, reason (empty: only the name differs), whether the flag
// is essential, what to type instead.
constexpr bool kEssential = true;

std::vector<RefusedFlag> refused_state() {
  return {
      // Slots: kvkeep finds state by content.
      {{"--slot-prompt-similarity", "-sps"},
       {},
       "there are no slots; state is found by its longest prefix; leave it out"},
      {{"--no-cache-idle-slots"}, {"LLAMA_ARG_CACHE_IDLE_SLOTS=off"}, "there are no slots: all state is kept"},
      {{"--kv-unified-per-slot"},
       {"LLAMA_ARG_KV_UNIFIED_PER_SLOT"},
       "one pool of cells has no limit per request; --no-kv-unified gives each its own cells"},
      {{"--no-cont-batching", "-nocb"},
       {"LLAMA_ARG_CONT_BATCHING=off"},
       "requests are always batched; --parallel 1 runs one at a time"},
  };
}

std::vector<RefusedFlag> refused_models() {
  const char* no_downloads = "models are not downloaded; name a file with --model";
  const char* no_drafts = "there is no speculative decoding";
  const char* with_model = "--model=FILE";
  return {
      {{"--hf-repo", "--hf-*", "-hf*"}, {"LLAMA_ARG_HF_*"}, no_downloads, kEssential, with_model},
      {{"--model-url", "-mu"}, {"LLAMA_ARG_MODEL_URL"}, no_downloads, kEssential, with_model},
      {{"--docker-repo", "-dr"}, {"LLAMA_ARG_DOCKER_REPO"}, no_downloads, kEssential, with_model},
      {{"--embd-gemma-default", "--fim-*", "--gpt-oss-*", "--vision-*"}, {}, no_downloads, !kEssential, with_model},
      {{"--cache-list", "-cl"}, {}, "there is no list of downloaded models"},
      {{"--models-dir", "--models-*"},
       {"LLAMA_ARG_MODELS_*"},
       "one model is served; name it with --model",
       !kEssential,
       with_model},
      {{"--mmproj-url", "-mmu"},
       {"LLAMA_ARG_MMPROJ_URL"},
       "projectors are not downloaded; name a file with --mmproj",
       kEssential,
       "--mmproj=FILE"},
      {{"--mtmd-batch-max-tokens", "--mtmd-*"}, {"LLAMA_ARG_MTMD_*"}, "a picture is encoded in one piece"},
      {{"--video-fps", "--video-*"}, {"LLAMA_ARG_VIDEO_*"}, "videos are not understood"},
      {{"--model-vocoder", "-mv", "--tts-*"}, {"LLAMA_ARG_MODEL_VOCODER"}, "the server speaks no text"},
      {{"--model-draft", "-md", "*-draft", "--spec-*", "--no-spec-*", "--draft*", "--mtp*"},
       {"LLAMA_ARG_SPEC_*", "LLAMA_ARG_DRAFT_*", "*_DRAFT"},
       no_drafts},
      {{"-ngld", "-devd", "-ctkd", "-ctvd", "-cd", "-td", "-tbd", "-Cd", "-Crd", "-Cbd", "-Crbd", "-otd", "-cmoed",
        "-ncmoed"},
       {},
       no_drafts},
      {{"--lookup-cache-static", "--lookup-cache-dynamic", "-lcs", "-lcd"}, {}, no_drafts},
  };
}

std::vector<RefusedFlag> refused_text() {
  return {
      // Templates and reasoning.
      {{"--no-jinja"}, {"LLAMA_ARG_JINJA=off"}, "templates are always rendered by a Jinja engine", kEssential},
      {{"--no-prefill-assistant"},
       {"LLAMA_ARG_PREFILL_ASSISTANT=off"},
       "the assistant's last message is always continued",
       kEssential},
      // Sampling that is not offered.
      {{"--backend-sampling", "-bs"}, {"LLAMA_ARG_BACKEND_SAMPLING=on"}, "tokens are chosen on the processor"},
      {{"--reverse-prompt", "-r"}, {}, "stop strings belong in the request"},
  };
}

std::vector<RefusedFlag> refused_machine() {
  return {
      {{"--lazy-mode", "-lzm"}, {"LLAMA_ARG_LAZY_MODE"}, "choose how to load with --load-mode auto, mmap or none"},
      {{"--metal", "--cuda", "--cpu"}, {}, "choose devices with --device and --n-gpu-layers"},
  };
}

std::vector<RefusedFlag> refused_network() {
  return {
      {{"--ssl-key-file", "--ssl-cert-file"}, {"LLAMA_ARG_SSL_*"}, "put a proxy that speaks TLS in front", kEssential},
      {{"--cors", "--cors-methods", "--cors-headers", "--cors-credentials"},
       {"LLAMA_ARG_CORS_METHODS", "LLAMA_ARG_CORS_HEADERS", "LLAMA_ARG_CORS_CREDENTIALS"},
       "name the web pages that may use the server with --allowed-origins"},
      {{"--api-prefix"}, {"LLAMA_ARG_API_PREFIX"}, "paths start at the root", kEssential},
      {{"--reuse-port"}, {"LLAMA_ARG_REUSE_PORT=on"}, "two servers would share one port by chance"},
      {{"--webui-config", "--webui-*", "--ui-*"},
       {"LLAMA_ARG_WEBUI_*", "LLAMA_ARG_UI_*"},
       "the web page has no settings"},
      {{"--tools", "--tools-runtime", "--mcp-*", "--agent", "-ag"},
       {"LLAMA_ARG_TOOLS*", "LLAMA_ARG_MCP_*", "LLAMA_ARG_AGENT=on"},
       "the server runs no tools; clients do"},
      // The log.
      {{"--no-perf"}, {"LLAMA_ARG_PERF=off"}, "every reply has times; leave it out"},
      {{"--log-jsonl"},
       {"LLAMA_ARG_LOG_JSONL=on"},
       "its lines have other fields here: --log-format json, and --trace FILE for one per request"},
      {{"--log-prompts-dir"}, {}, "prompts are not logged"},
      {{"--completion-bash"}, {}, "type: kvkeep help --completions bash"},
  };
}

std::vector<RefusedFlag> refused_ds4() {
  return {
      {{"--kv-cache-reject-different-quant"}, {}, "state of another model or quantization is never used"},
      {{"--disable-exact-dsml-tool-replay"}, {}, "", !kEssential, "--replay canonical"},
      {{"--tool-memory-max-ids"}, {}, "sampled turns are kept up to a few MiB, not up to a number"},
  };
}

}  // namespace

std::vector<RefusedFlag> refused_serve_flags() {
  std::vector<RefusedFlag> all;
  for (std::vector<RefusedFlag> group :
       {refused_state(), refused_models(), refused_text(), refused_machine(), refused_network(), refused_ds4()}) {
    std::ranges::move(group, std::back_inserter(all));
  }
  return all;
}

}  // namespace kvkeep::cli
