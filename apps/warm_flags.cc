#include <utility>

#include "flag_values.h"
#include "warm.h"

namespace kvkeep::cli {
namespace {

constexpr std::uint32_t kLongestKeepS = 86'400;

FlagSet warm_flags(WarmOptions& options) {
  std::vector<Flag> flags = address_flags(options.server);
  std::vector<Flag> request = {
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
       .effect = "Seconds for which other state is evicted before this one, at most a day.",
       .assign = number_into(options.keep_s, std::uint32_t{0}, kLongestKeepS)},
  };
  for (Flag& flag : request) flags.push_back(std::move(flag));
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
  TRY_ASSIGN(parsed.wants_help,
             parse_with_address(warm_flags(options), options.server, arguments, environment, &files));
  if (parsed.wants_help) return parsed;
  if (files.size() != 1) return invalid("name one file: kvkeep warm [flags] FILE");
  options.file = std::move(files.front());
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
