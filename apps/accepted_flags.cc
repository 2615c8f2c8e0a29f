// Flags of llama-server that ask for what kvkeep always does. Rows that change nothing, so that start scripts written
// for llama-server start here as they are; a flag that asks for anything else is refused (refused_flags.cc).

#include <algorithm>
#include <iterator>
#include <utility>

#include "flag_values.h"
#include "serve_flags.h"

namespace kvkeep::cli {
namespace {

Flag always(std::string spelling, std::string reason, std::string environment = {}) {
  return {.spelling = std::move(spelling),
          .environment = std::move(environment),
          .default_text = "always",
          .effect = "Accepted: " + std::move(reason) + ".",
          .assign = always_so()};
}

// The value must be a number, as in llama-server.
Flag always_number(std::string spelling, std::string reason, std::string environment = {}) {
  Flag flag = always(std::move(spelling), std::move(reason), std::move(environment));
  flag.assign = [](const std::string& text) -> Status {
    TRY(parse_number(text, -1e9, 1e9));
    return {};
  };
  return flag;
}

// Only `value` asks for what is so anyway; any other is refused with `reason`.
Flag only_at(std::string value, std::string spelling, std::string reason, std::string environment = {}) {
  return {.spelling = std::move(spelling),
          .environment = std::move(environment),
          .default_text = "always " + value,
          .effect = "Accepted: only with " + value + "; other values are refused, because " + reason + ".",
          .assign = always_so(),
          .only = {{value}, reason}};
}

// Flags that ask for something that kvkeep does not do, unless they have the value that asks for nothing.
std::vector<Flag> neutral_flags() {
  const char* no_drafts = "there is no speculative decoding";
  return {
      only_at("0", "--cache-reuse N", "shifted state is not what the model computes for the new position",
              "LLAMA_ARG_CACHE_REUSE"),
      only_at("none", "--spec-type TYPE", no_drafts, "LLAMA_ARG_SPEC_TYPE"),
      only_at("0", "--spec-draft-n-max N", no_drafts, "LLAMA_ARG_SPEC_DRAFT_N_MAX"),
      only_at("0", "--spec-draft-n-min N", no_drafts, "LLAMA_ARG_SPEC_DRAFT_N_MIN"),
      only_at("0", "-ncffn, --n-cpu-ffn N", "tensors are placed with --override-tensor", "LLAMA_ARG_N_CPU_FFN"),
      only_at("0", "--moe-cache-mib MIB", "there is no cache of experts on devices", "LLAMA_ARG_MOE_CACHE_MIB"),
      only_at("-1", "--sleep-idle-seconds N", "the model stays loaded"),
  };
}

}  // namespace

std::vector<Flag> accepted_flags() {
  std::vector<Flag> flags = {
      always("-cb, --cont-batching", "requests are always batched"),
      always("--cache-idle-slots", "the state of idle conversations is always kept"),
      always_number("-dt, --defrag-thold N", "libllama no longer defragments", "LLAMA_ARG_DEFRAG_THOLD"),
      always("--offline", "nothing is downloaded", "LLAMA_ARG_OFFLINE"),
      always("--no-models-autoload", "no model is loaded because a request names it"),
      always("--prefill-assistant", "an assistant's last message is always continued"),
      always("-sp, --special", "special tokens are always part of a reply's text"),
      always("-e, --escape, --no-escape", "it is about a prompt on the command line, and there is none"),
      always("--no-cors-credentials", "web pages never get credentials"),
      always("--no-webui-mcp-proxy, --no-ui-mcp-proxy", "the server calls no other one"),
      always("-no-ag, --no-agent", "the server runs no tools"),
      always("--perf", "every reply has times"),
      always("--no-log-jsonl", "the log is text unless --log-format says otherwise"),
  };
  std::ranges::move(neutral_flags(), std::back_inserter(flags));
  flags.front().group = "Accepted for scripts written for llama-server";
  return flags;
}

}  // namespace kvkeep::cli
