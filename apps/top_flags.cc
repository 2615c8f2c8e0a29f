#include "top_flags.h"

#include <utility>

#include "flag_values.h"

namespace kvkeep::cli {
namespace {

constexpr char kCommand[] = "kvkeep top [flags]";
constexpr char kDescription[] =
    "Shows a running server in the terminal: what runs, how full the tiers are, what the cache saved, and one of four "
    "lists: the last requests with the reason why they did not reuse more, the causes that kept prompts from being "
    "reused, the prefixes used most, and the tenants. The server's page at / (docs/page.md) has more: rates, the text "
    "around a difference, and a chat.";

FlagSet top_flags(TopCommandOptions& options) {
  std::vector<Flag> flags = address_flags(options.server);
  flags.push_back({.group = "View",
                   .spelling = "--interval SECONDS",
                   .effect = "Time between two looks.",
                   .assign = number_into(options.interval_s, 0.1, 3'600.0)});
  flags.push_back({.spelling = "--list requests|causes|prefixes|tenants",
                   .effect = "The list to show first; the keys 1 to 4 show the others.",
                   .assign = choice_into(options.list, {{"requests", top::List::kRequests},
                                                        {"causes", top::List::kCauses},
                                                        {"prefixes", top::List::kPrefixes},
                                                        {"tenants", top::List::kTenants}})});
  flags.push_back({.spelling = "--once",
                   .effect = "Print one frame as text and exit; the default if standard output is no terminal.",
                   .assign = switch_into(options.once)});
  return FlagSet(kCommand, kDescription, std::move(flags));
}

}  // namespace

Result<ParsedTop> parse_top(const std::vector<std::string>& arguments, const os::Environment& environment) {
  ParsedTop parsed;
  TopCommandOptions& options = parsed.options;
  TRY_ASSIGN(parsed.wants_help, parse_with_address(top_flags(options), options.server, arguments, environment));
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
