#include "cache_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "command_words.h"
#include "flag_values.h"
#include "serve_flags.h"
#include "share/engines/engine_url.h"

namespace kvkeep::cli {
namespace {

struct CacheCommand {
  const char* name;
  CacheAction action;
  const char* usage;    // shown after the command's name and flags; "": the command takes no arguments
  const char* summary;  // one line of the overview
  const char* description;
};

constexpr CacheCommand kCommands[] = {
    {"stat", CacheAction::kStat, "", "what is stored for each model, and the space it takes",
     "Shows what a cache directory holds for each model: tokens, files, sizes, last use and damage."},
    {"ls", CacheAction::kList, "", "the stored prefixes, as a tree",
     "Lists the stored prefixes as a tree: a line for each run of tokens without a branch. TOKENS is the length of the "
     "whole prefix, NEW the number of tokens that the line adds to the one it is indented below. USED is the last use "
     "of the prefix or of any below it, TEXT its last user message, or how it begins."},
    {"show", CacheAction::kShow, "ID", "all of one prefix: path, files, checksums; on request its ids or text",
     "Shows one prefix: the path that leads to it, its files, their sizes and checksums. Token ids and text are "
     "a user's prompt, so they are shown only with --ids and --text."},
    {"verify", CacheAction::kVerify, "", "read and check every file",
     "Reads every file and checks headers, checksums, hashes and that each file's parent exists. Exit status 1 if "
     "anything is wrong. Files that a running server adds or removes meanwhile are not reported."},
    {"gc", CacheAction::kCollect, "", "remove unusable files; with --to-mb also prefixes of least value",
     "Removes files of no use: unfinished ones of processes that are gone, damaged ones, and ones without a parent. "
     "With --to-mb also the prefixes of least value, in the order in which a server would evict them."},
    {"rm", CacheAction::kRemove, "ID...", "remove prefixes and everything below them",
     "Removes prefixes, each with its whole line of kvkeep cache ls and all lines below it, also other conversations, "
     "which leave the line before its end; with --model and no id, everything stored for that model. A running server "
     "prefills those tokens again."},
    {"pin", CacheAction::kPin, "ID...", "keep prefixes from eviction",
     "Pins prefixes: they, and the paths that lead to them, are evicted last, as long as all pinned state takes no "
     "more than half of the budget. A running server notices within seconds."},
    {"unpin", CacheAction::kUnpin, "ID...", "allow their eviction again",
     "Unpins prefixes. A server that saw the pins may keep the prefixes for another day."},
    {"export", CacheAction::kExport, "FILE [ID...]", "write prefixes to one file, for another directory",
     "Writes an archive of prefixes: the lines that the ids name (without ids: all), the paths that lead to them and "
     "the lines that continue them. FILE must not exist. It holds prompts in clear."},
    {"import", CacheAction::kImport, "FILE", "add the prefixes of an archive",
     "Adds the prefixes of an archive that export wrote. The whole archive is checked before anything is written, and "
     "an error leaves nothing of it. Prefixes that are stored already are skipped. Servers of the same model, "
     "settings and version find the new ones within seconds."},
};

std::vector<Flag> common_flags(CacheCommandOptions& options) {
  return {
      {.group = "Directory",
       .spelling = "--kv-disk-dir DIR",
       .environment = kDiskDirectoryVariable,
       .default_text = "kvkeep in the user's cache home",
       .effect = "The cache directory, as for kvkeep serve.",
       .assign = text_into(options.tiers.disk_directory)},
      {.spelling = "--kv-disk-space-mb N",
       .default_text = "as kvkeep serve",
       .effect = "The budget: sizes are shown as shares of it, and import keeps to it. The budget of a running server "
                 "is not known here.",
       .assign = mebibytes_into(options.tiers.disk_budget, 1)},
  };
}

Flag json_flag(CacheCommandOptions& options) {
  return {.group = "Output",
          .spelling = "--json",
          .effect = "Print JSON for programs (docs/cache-command.md).",
          .assign = switch_into(options.json)};
}

Flag model_flag(CacheCommandOptions& options) {
  return {.group = "Choice",
          .spelling = "--model FINGERPRINT",
          .default_text = "all",
          .effect = "Only the model whose fingerprint begins with this, as kvkeep cache stat shows it.",
          .assign = text_into(options.fingerprint)};
}

Flag gguf_flag(CacheCommandOptions& options) {
  return {.group = "Output",
          .spelling = "--gguf FILE",
          .default_text = "as it was served",
          .effect = "The model's file: its vocabulary turns ids into text.",
          .assign = text_into(options.gguf)};
}

std::vector<Flag> list_flags(CacheCommandOptions& options) {
  using inspect::Order;
  return {model_flag(options),
          gguf_flag(options),
          {.group = "Choice",
           .spelling = "-n, --limit N",
           .default_text = "no limit",
           .effect = "Show at most this many lines per model.",
           .assign = number_into(options.most_runs, std::size_t{1})},
          {.group = "Choice",
           .spelling = "--depth N",
           .default_text = "no limit",
           .effect = "Show at most this many levels; 1: only the beginnings of conversations.",
           .assign = number_into(options.most_depth, std::size_t{1})},
          {.group = "Output",
           .spelling = "--sort used|size|tokens|position",
           .effect = "Order of siblings: last used first, largest first, longest first, or by position in the prompt.",
           .assign = choice_into(options.order, {{"used", Order::kUsed},
                                                 {"size", Order::kSize},
                                                 {"tokens", Order::kTokens},
                                                 {"position", Order::kPosition}})}};
}

std::vector<Flag> verify_flags(CacheCommandOptions& options) {
  return {{.group = "Repair",
           .spelling = "--repair",
           .effect = "Move damaged files to quarantine/ and remove files whose parent is missing.",
           .assign = switch_into(options.repair)}};
}

std::vector<Flag> stat_flags(CacheCommandOptions& options) {
  return {{.group = "Choice",
           .spelling = "--share URL",
           .default_text = "none",
           .effect = "Instead show the shared tier there, as kvkeep serve --share names it: whether it answers, its "
                     "memory, keys and warnings.",
           .assign = text_into(options.share)}};
}

Flag dry_flag(CacheCommandOptions& options) {
  return {.group = "Choice",
          .spelling = "--dry-run",
          .effect = "Only print what would be removed.",
          .assign = switch_into(options.dry)};
}

std::vector<Flag> show_flags(CacheCommandOptions& options) {
  return {
      {.group = "Output",
       .spelling = "--text",
       .effect = "Print the text of the whole prefix.",
       .assign = switch_into(options.with_text)},
      {.spelling = "--ids",
       .effect = "Print the token ids of the whole prefix.",
       .assign = switch_into(options.with_ids)},
      gguf_flag(options),
  };
}

std::vector<Flag> collect_flags(CacheCommandOptions& options) {
  return {
      {.group = "Choice",
       .spelling = "--all",
       .effect = "Also remove the damaged files in quarantine/.",
       .assign = switch_into(options.quarantine)},
      {.spelling = "--to-mb N",
       .default_text = "no limit",
       .effect = "Also remove the prefixes of least value until the directory takes at most N MiB.",
       .assign = mebibytes_into(options.to, 0)},
      dry_flag(options),
  };
}

std::vector<Flag> remove_flags(CacheCommandOptions& options) {
  return {model_flag(options),
          {.group = "Choice",
           .spelling = "-y, --yes",
           .effect = "Do not ask before removing, also not for conversations that no id names.",
           .assign = switch_into(options.yes)},
          dry_flag(options)};
}

FlagSet flags_of(const CacheCommand& command, CacheCommandOptions& options) {
  std::vector<Flag> flags;
  switch (command.action) {
    case CacheAction::kStat: flags = stat_flags(options); break;
    case CacheAction::kList: flags = list_flags(options); break;
    case CacheAction::kShow: flags = show_flags(options); break;
    case CacheAction::kVerify: flags = verify_flags(options); break;
    case CacheAction::kCollect: flags = collect_flags(options); break;
    case CacheAction::kRemove: flags = remove_flags(options); break;
    case CacheAction::kExport: flags = {model_flag(options)}; break;
    case CacheAction::kImport:
    case CacheAction::kPin:
    case CacheAction::kUnpin: break;
  }
  flags.push_back(json_flag(options));
  for (Flag& flag : common_flags(options)) flags.push_back(std::move(flag));
  const std::string behind = *command.usage == '\0' ? "" : std::string(" ").append(command.usage);
  return FlagSet(fmt::format("kvkeep cache {} [flags]{}", command.name, behind), command.description, std::move(flags));
}

std::string overview() {
  std::string text =
      "Looks into a cache directory, also next to a running server.\n"
      "\n"
      "Usage: kvkeep cache COMMAND [flags]\n"
      "\n"
      "Commands:\n";
  for (const CacheCommand& command : kCommands) text += fmt::format("  {:<12} {}\n", command.name, command.summary);
  return text + "\nkvkeep cache COMMAND --help names its flags.\n";
}

// Returns where the command stands in "kvkeep cache --kv-disk-dir DIR stat", since flags may stand before it; returns
// the number of `arguments` if there is no command.
std::size_t command_at(const std::vector<std::string>& arguments) {
  CacheCommandOptions unused;
  std::vector<KnownFlag> known;
  for (const CacheCommand& command : kCommands) {
    const FlagSet own = flags_of(command, unused);
    known.insert(known.end(), own.flags().begin(), own.flags().end());
  }
  std::size_t at = 0;
  while (at < arguments.size() && arguments[at].starts_with('-')) {
    const std::string name = arguments[at].substr(0, arguments[at].find('='));
    const auto flag = std::ranges::find_if(known, [&](const KnownFlag& one) {
      return one.name == name || std::ranges::find(one.aliases, name) != one.aliases.end();
    });
    const bool value_follows = flag != known.end() && !flag->value.empty() && name == arguments[at];
    at += value_follows ? 2 : 1;
  }
  return std::min(at, arguments.size());
}

Error unknown_cache_command(const std::string& name) {
  std::vector<std::string> names;
  for (const CacheCommand& command : kCommands) names.emplace_back(command.name);
  constexpr std::array kOtherWords = {"clear", "clean", "cleanup", "delete", "del",    "drop",  "empty", "erase",
                                      "evict", "flush", "prune",   "purge",  "remove", "reset", "wipe"};
  if (std::ranges::find(kOtherWords, name) != std::end(kOtherWords)) {
    return invalid(
        fmt::format("unknown command 'cache {}': {} ID removes what is named, {} --model FINGERPRINT all of a "
                    "model ({} lists both), and {} makes room",
                    name, as_typed("cache rm"), as_typed("cache rm"), as_typed("cache ls"), as_typed("cache gc")));
  }
  const std::string near = did_you_mean(name, names);
  return invalid("unknown command 'cache " + name + "'" + (near.empty() ? "; see " + as_typed("cache --help") : near));
}

Status check_words(const CacheCommand& command, const CacheCommandOptions& options) {
  const std::string_view usage = command.usage;
  const std::vector<std::string>& words = options.words;
  const bool many = usage.ends_with("...") || usage.ends_with("...]");
  const std::size_t most = usage.empty() ? 0 : many ? SIZE_MAX : 1;
  if (words.size() > most) {
    const std::string hint = most == 0 ? "; a directory is named with --kv-disk-dir " + words[most] : "";
    return invalid("unexpected argument '" + words[most] + "'" + hint);
  }
  const bool whole_model = command.action == CacheAction::kRemove && !options.fingerprint.empty();
  if (usage.empty() || whole_model || !words.empty()) return {};
  return invalid(fmt::format("no ID or FILE was given: {} {} [flags] {}", as_typed("cache"), command.name, usage));
}

Status check_together(const CacheCommandOptions& options) {
  const bool removes = options.action == CacheAction::kRemove;
  if (removes && !options.words.empty() && !options.fingerprint.empty()) {
    return invalid("name ids or a --model to remove, not both");
  }
  if (options.share.empty()) return {};
  if (!options.directory_is_servers || options.tiers.disk_budget) {
    return invalid("name a shared tier with --share, or a directory with the --kv-disk-... flags, not both");
  }
  if (const auto url = share::parse_engine_url(options.share); !url) return invalid("--share: " + url.error().message);
  return {};
}

}  // namespace

Result<ParsedCache> parse_cache(const std::vector<std::string>& arguments, const os::Environment& environment) {
  ParsedCache parsed;
  const auto is_help = [](const std::string& word) { return word == "--help" || word == "-h" || word == "help"; };
  const std::size_t at = command_at(arguments);
  const bool asks_help = std::ranges::any_of(arguments, is_help);
  if (arguments.empty() || is_help(arguments.front()) || (at == arguments.size() && asks_help)) {
    parsed.help = overview();
    return parsed;
  }
  if (at == arguments.size()) {
    return invalid(fmt::format("no command: {} {}", as_typed("cache stat"), fmt::join(arguments, " ")));
  }
  const std::string_view name = arguments[at] == "list" ? "ls" : std::string_view(arguments[at]);
  const auto command = std::ranges::find_if(kCommands, [&](const CacheCommand& known) { return name == known.name; });
  if (command == std::end(kCommands)) return unknown_cache_command(arguments[at]);
  std::vector<std::string> others = arguments;
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(at));
  CacheCommandOptions& options = parsed.options;
  options.action = command->action;
  const FlagSet flags = flags_of(*command, options);
  TRY_ASSIGN(const bool wants_help, flags.parse(others, environment, &options.words));
  if (wants_help) {
    parsed.help = flags.help();
    return parsed;
  }
  const std::string& directory = options.tiers.disk_directory;
  const auto variable = environment.find(kDiskDirectoryVariable);
  options.directory_is_servers = directory.empty() || (variable != environment.end() && variable->second == directory);
  TRY(check_words(*command, options));
  TRY(check_together(options));
  return parsed;
}

std::vector<CommandManual> cache_manuals() {
  CacheCommandOptions options;
  std::vector<CommandManual> manuals;
  for (const CacheCommand& command : kCommands) manuals.push_back(flags_of(command, options).manual());
  return manuals;
}

}  // namespace kvkeep::cli
