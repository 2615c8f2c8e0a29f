#include "cache_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "flag_binding.h"
#include "suggest.h"

namespace kvkeep::cli {
namespace {

using Words = std::vector<std::string>;

struct Command {
  const char* name;
  CacheAction action;
  const char* usage;    // behind the name and the flags
  const char* summary;  // a line of the overview
  const char* description;
};

constexpr Command kCommands[] = {
    {"stat", CacheAction::kStat, "", "what is stored, per model, and what it takes",
     "Says what a cache directory holds, per model: tokens, files, sizes, uses and troubles."},
    {"ls", CacheAction::kList, "", "the stored prefixes, as a tree",
     "Lists the stored prefixes as a tree: a line for each run of tokens without a branch. TOKENS is the length of the "
     "whole prefix, NEW what the line adds to the one it is indented below. USED is the last use of it or of what "
     "hangs below it."},
    {"verify", CacheAction::kVerify, "", "read and check every file",
     "Reads every file and checks headers, sums, hashes and how files hang together. Exit status 1 if anything is "
     "wrong. Beside a running server, files that come and go are no damage."},
};

std::vector<Flag> common_flags(CacheCommandOptions& options) {
  const char* group = "Directory";
  return {row(group, "--kv-disk-dir", {}, {}, "DIR", "", "kvkeep in the user's cache home",
              "The cache directory, as for kvkeep serve.", text_into(options.directory)),
          row(group, "--kv-disk-space-mb", {}, {}, "N", "", "as kvkeep serve", "The budget that shares are shares of.",
              number_into(options.disk_mib, std::uint64_t{1}, std::uint64_t{1} << 40))};
}

Flag json_flag(CacheCommandOptions& options) {
  return row("Output", "--json", {}, {}, "", "", "off", "Print JSON for programs (docs/cache-command.md).",
             switch_into(options.json));
}

Flag model_flag(CacheCommandOptions& options) {
  return row("Choice", "--model", {}, {}, "FINGERPRINT", "", "all",
             "Only the model whose fingerprint begins so, as kvkeep cache stat shows it.",
             text_into(options.fingerprint));
}

std::vector<Flag> list_flags(CacheCommandOptions& options) {
  using inspect::Order;
  return {
      model_flag(options),
      row("Choice", "--limit", {"-n"}, {}, "N", "", "no limit", "At most so many lines of a model.",
          number_into(options.most_runs, std::size_t{1})),
      row("Choice", "--depth", {}, {}, "N", "", "no limit", "At most so many levels; 1: what begins a conversation.",
          number_into(options.most_depth, std::size_t{1})),
      row("Output", "--sort", {}, {}, "used|size|tokens|position", "", "used",
          "What comes first among siblings: used last, largest, longest, or as they lie in the prompt.",
          choice_into(options.order, {{"used", Order::kUsed},
                                      {"size", Order::kSize},
                                      {"tokens", Order::kTokens},
                                      {"position", Order::kPosition}}))};
}

std::vector<Flag> verify_flags(CacheCommandOptions& options) {
  return {row("Repair", "--repair", {}, {}, "", "", "off",
              "Set damaged files aside in quarantine/ and remove what hangs below nothing.",
              switch_into(options.repair))};
}

FlagSet flags_of(const Command& command, CacheCommandOptions& options) {
  std::vector<Flag> flags;
  if (command.action == CacheAction::kList) flags = list_flags(options);
  if (command.action == CacheAction::kVerify) flags = verify_flags(options);
  flags.push_back(json_flag(options));
  for (Flag& flag : common_flags(options)) flags.push_back(std::move(flag));
  const std::string behind = *command.usage == '\0' ? "" : std::string(" ").append(command.usage);
  return FlagSet(fmt::format("kvkeep cache {} [flags]{}", command.name, behind), command.description, std::move(flags));
}

std::string overview() {
  std::string text =
      "Looks into a cache directory, also beside a running server.\n"
      "\n"
      "Usage: kvkeep cache COMMAND [flags]\n"
      "\n"
      "Commands:\n";
  for (const Command& command : kCommands) text += fmt::format("  {:<12} {}\n", command.name, command.summary);
  return text + "\nkvkeep cache COMMAND --help names its flags.\n";
}

Error unknown_command(const std::string& name) {
  Words names;
  for (const Command& command : kCommands) names.emplace_back(command.name);
  const std::string near = did_you_mean(name, names);
  return invalid("unknown command 'cache " + name + "'" + (near.empty() ? "; see kvkeep cache --help" : near));
}

Status check_words(const Command& command, const Words& words) {
  if (*command.usage == '\0' && !words.empty()) return invalid("unexpected argument '" + words.front() + "'");
  return {};
}

}  // namespace

Result<ParsedCache> parse_cache(const Words& arguments, const os::Environment& environment) {
  ParsedCache parsed;
  const auto is_help = [](const std::string& word) { return word == "--help" || word == "-h" || word == "help"; };
  if (arguments.empty() || is_help(arguments.front())) {
    parsed.help = overview();
    return parsed;
  }
  const auto command =
      std::ranges::find_if(kCommands, [&](const Command& known) { return arguments.front() == known.name; });
  if (command == std::end(kCommands)) return unknown_command(arguments.front());
  CacheCommandOptions& options = parsed.options;
  options.action = command->action;
  const FlagSet flags = flags_of(*command, options);
  TRY_ASSIGN(const bool wants_help, flags.parse({arguments.begin() + 1, arguments.end()}, environment, &options.ids));
  if (wants_help) {
    parsed.help = flags.help();
    return parsed;
  }
  TRY(check_words(*command, options.ids));
  return parsed;
}

}  // namespace kvkeep::cli
