#include <utility>

#include "flag_values.h"
#include "warm.h"

namespace kvkeep::cli {
namespace {

constexpr std::uint32_t kLongestKeepS = 86'400;

FlagSet warm_flags(WarmOptions& options) {
  std::vector<Flag> flags = {
      {.group = "Server", .spelling = "--url URL", .effect = "The running server.", .assign = text_into(options.url)},
      {.spelling = "--api-key KEY",
       .environment = "LLAMA_API_KEY",
       .effect = "Key to send.",
       .assign = text_into(options.api_key)},
      {.group = "Request",
       .spelling = "--client claude-code|codex|opencode|qwen-code|cline|aider",
       .default_text = "any",
       .effect = "Take a request of the API that this client speaks.",
       .assign = choice_into(options.dialect, {{"claude-code", WarmDialect::kMessages},
                                               {"codex", WarmDialect::kResponses},
                                               {"opencode", WarmDialect::kChat},
                                               {"qwen-code", WarmDialect::kChat},
                                               {"cline", WarmDialect::kChat},
                                               {"aider", WarmDialect::kChat}})},
      {.spelling = "--keep-s N",
       .effect = "Seconds in which eviction takes the state last, at most a day.",
       .assign = number_into(options.keep_s, std::uint32_t{0}, kLongestKeepS)},
  };
  return FlagSet(
      "kvkeep warm [flags] FILE",
      "Has a running server prefill the prompt of a recorded request, so that the next one that begins so is "
      "answered at once. FILE is the request's body, or a recording as for kvkeep replay: then it is the first "
      "request with tools, else the first one. - is standard input.",
      std::move(flags));
}

}  // namespace

Result<ParsedWarm> parse_warm(const std::vector<std::string>& arguments, const os::Environment& environment) {
  ParsedWarm parsed;
  WarmOptions& options = parsed.options;
  std::vector<std::string> files;
  TRY_ASSIGN(parsed.wants_help, warm_flags(options).parse(arguments, environment, &files));
  if (parsed.wants_help) return parsed;
  if (files.size() != 1) return invalid("name one file: kvkeep warm [flags] FILE");
  options.file = std::move(files.front());
  // Clients are told the base URL with /v1.
  if (options.url.ends_with('/')) options.url.pop_back();
  if (options.url.ends_with("/v1")) options.url.resize(options.url.size() - 3);
  return parsed;
}

std::string warm_help() {
  WarmOptions options;
  return warm_flags(options).help();
}

CommandManual warm_manual() {
  WarmOptions options;
  return warm_flags(options).manual();
}

}  // namespace kvkeep::cli
