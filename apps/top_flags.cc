#include "top_flags.h"

#include <utility>

#include "flag_values.h"

namespace kvkeep::cli {
namespace {

constexpr char kCommand[] = "kvkeep top [flags]";
constexpr char kDescription[] =
    "Shows a running server in the terminal: what runs, the last requests with the reason why they reused no more, how "
    "full the tiers are, and what the cache saved. The server's page at / (docs/page.md) has more: rates, tenants, "
    "prefixes, texts that cost most, and a chat. This command asks only counters, so that the server is not slower.";

FlagSet top_flags(TopCommandOptions& options) {
  return FlagSet(kCommand, kDescription,
                 {{.group = "Server",
                   .spelling = "--url URL",
                   .environment = "KVKEEP_URL",
                   .effect = "The server to look at.",
                   .assign = text_into(options.url)},
                  {.spelling = "--api-key KEY",
                   .environment = "LLAMA_API_KEY",
                   .effect = "Key to send. Other users can see command lines: prefer --api-key-file.",
                   .assign = text_into(options.api_key)},
                  {.spelling = "--api-key-file FILE",
                   .environment = "LLAMA_ARG_API_KEY_FILE",
                   .default_text = "none",
                   .effect = "File with keys, as serve takes it; the first one is sent.",
                   .assign = text_into(options.api_key_file)},
                  {.group = "View",
                   .spelling = "--interval SECONDS",
                   .effect = "Time between two looks.",
                   .assign = number_into(options.interval_s, 0.1, 3'600.0)},
                  {.spelling = "--once",
                   .effect = "Print one frame as text and exit; the default if standard output is no terminal.",
                   .assign = switch_into(options.once)}});
}

}  // namespace

Result<ParsedTop> parse_top(const std::vector<std::string>& arguments, const os::Environment& environment) {
  ParsedTop parsed;
  TopCommandOptions& options = parsed.options;
  TRY_ASSIGN(parsed.wants_help, top_flags(options).parse(arguments, environment));
  // Clients are told the base URL with /v1.
  if (options.url.ends_with('/')) options.url.pop_back();
  if (options.url.ends_with("/v1")) options.url.resize(options.url.size() - 3);
  return parsed;
}

std::string top_help() {
  TopCommandOptions options;
  return top_flags(options).help();
}

CommandManual top_manual() {
  TopCommandOptions options;
  return top_flags(options).manual();
}

}  // namespace kvkeep::cli
