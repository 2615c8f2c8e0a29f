#include "share_command_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "command_words.h"
#include "flag_values.h"
#include "serve_flags.h"

namespace kvkeep::cli {
namespace {

struct ShareCommand {
  const char* name;
  ShareAction action;
  const char* summary;  // one line of the overview
  const char* description;
};

constexpr ShareCommand kShareCommands[] = {
    {"ls", ShareAction::kList, "the models and devices whose state an engine holds",
     "Lists the namespaces of a shared tier: for each the model's fingerprint, the kind of device that computed the "
     "state, and the number of objects."},
    {"push", ShareAction::kPush, "publish what a cache directory holds",
     "Publishes the stored prefixes and sampled turns of a cache directory in a shared tier, those that were used last "
     "first, and skips those that are there. What a stopped push left out the next one publishes."},
    {"pull", ShareAction::kPull, "add what an engine holds to a cache directory",
     "Adds the prefixes and sampled turns that a shared tier holds to a cache directory, which is made if necessary. "
     "Everything is verified; damaged and forged objects are skipped. What a stopped pull left out the next one adds. "
     "Servers that run on the directory find the new prefixes within seconds."},
};

bool changes(ShareAction action) { return action != ShareAction::kList; }

std::vector<Flag> choice_flags(ShareCommandOptions& options) {
  return {
      {.group = "Choice",
       .spelling = "--model FINGERPRINT",
       .default_text = "all",
       .effect = "Only the model whose fingerprint begins with this, as kvkeep cache stat and kvkeep share ls show it.",
       .assign = text_into(options.cache.fingerprint)},
      {.spelling = "--device TEXT",
       .default_text = "as the directory's note says; for pull without one, this machine's",
       .effect = "The kind of device that computed the state, as kvkeep share ls shows it.",
       .assign = text_into(options.device)},
      {.spelling = "--max-mb N",
       .default_text = "no limit",
       .effect = "Carry at most N MiB.",
       .assign = mebibytes_into(options.most, 1)},
      {.spelling = "--dry-run", .effect = "Only count what would be carried.", .assign = switch_into(options.dry)},
  };
}

std::vector<Flag> directory_flags(ShareCommandOptions& options) {
  std::vector<Flag> flags{{.group = "Directory",
                           .spelling = "--kv-disk-dir DIR",
                           .environment = kDiskDirectoryVariable,
                           .default_text = "kvkeep in the user's cache home",
                           .effect = "The cache directory, as for kvkeep serve.",
                           .assign = text_into(options.cache.tiers.disk_directory)}};
  if (options.action != ShareAction::kPull) return flags;
  flags.push_back({.spelling = "--kv-disk-space-mb N",
                   .default_text = "as kvkeep serve",
                   .effect = "The budget of the directory, to which pull keeps.",
                   .assign = mebibytes_into(options.cache.tiers.disk_budget, 1)});
  return flags;
}

// An engine is read without a time to live and without a key to encrypt with.
bool is_of_push_only(const Flag& flag) {
  return flag.spelling.starts_with("--share-encrypt") || flag.spelling.starts_with("--share-ttl-hours");
}

FlagSet flags_of_share(const ShareCommand& command, ShareCommandOptions& options) {
  options.action = command.action;
  std::vector<Flag> flags;
  for (Flag& flag : engine_flags(options.shared)) {
    const bool needed = command.action == ShareAction::kPush || !is_of_push_only(flag);
    const bool names_device = flag.spelling.starts_with("--share-across-devices");
    if (!needed || (names_device && !changes(command.action))) continue;
    if (names_device) {
      flag.effect = command.action == ShareAction::kPush
                        ? "Publish for servers with this flag, which take state of any kind of device."
                        : "Take what servers with this flag published, on any kind of device; replies may then differ "
                          "from those without sharing.";
    }
    flags.push_back(std::move(flag));
  }
  const auto append = [&flags](std::vector<Flag> more) { std::ranges::move(more, std::back_inserter(flags)); };
  if (changes(command.action)) append(directory_flags(options));
  if (changes(command.action)) append(choice_flags(options));
  flags.push_back({.group = "Output",
                   .spelling = "--json",
                   .effect = "Print JSON for programs (docs/sharing.md).",
                   .assign = switch_into(options.json)});
  return FlagSet(fmt::format("kvkeep share {} --share URL [flags]", command.name), command.description,
                 std::move(flags));
}

std::string share_overview() {
  std::string text =
      "Looks into a shared tier, and carries stored state between it and a cache directory.\n"
      "\n"
      "Usage: kvkeep share COMMAND --share URL [flags]\n"
      "\n"
      "Commands:\n";
  for (const ShareCommand& command : kShareCommands)
    text += fmt::format("  {:<12} {}\n", command.name, command.summary);
  return text + "\nkvkeep share COMMAND --help names its flags.\n";
}

Error unknown_share_command(const std::string& name) {
  std::vector<std::string> names;
  for (const ShareCommand& command : kShareCommands) names.emplace_back(command.name);
  const std::string near = did_you_mean(name, names);
  return invalid("unknown command 'share " + name + "'" + (near.empty() ? "; see " + as_typed("share --help") : near));
}

Status check_options(const ShareCommand& command, const ShareCommandOptions& options) {
  if (options.shared.url.empty()) {
    return invalid(fmt::format("no shared tier was named: {} {} --share URL", as_typed("share"), command.name));
  }
  TRY(check_share(options.shared));
  if (options.shared.across_devices && !options.device.empty()) {
    return invalid("name a --device or --share-across-devices, not both");
  }
  return {};
}

}  // namespace

Result<ParsedShare> parse_share(const std::vector<std::string>& arguments, const os::Environment& environment) {
  ParsedShare parsed;
  const auto is_help = [](const std::string& word) { return word == "--help" || word == "-h" || word == "help"; };
  if (arguments.empty() || is_help(arguments.front())) {
    parsed.help = share_overview();
    return parsed;
  }
  if (arguments.front().starts_with('-')) {
    return invalid(fmt::format("the command comes first: {} {}", as_typed("share ls"), fmt::join(arguments, " ")));
  }
  const auto command =
      std::ranges::find_if(kShareCommands, [&](const ShareCommand& known) { return arguments.front() == known.name; });
  if (command == std::end(kShareCommands)) return unknown_share_command(arguments.front());
  ShareCommandOptions& options = parsed.options;
  const FlagSet flags = flags_of_share(*command, options);
  TRY_ASSIGN(const bool wants_help, flags.parse({arguments.begin() + 1, arguments.end()}, environment));
  if (wants_help) {
    parsed.help = flags.help();
    return parsed;
  }
  TRY(check_options(*command, options));
  return parsed;
}

std::vector<CommandManual> share_manuals() {
  std::vector<CommandManual> manuals;
  for (const ShareCommand& command : kShareCommands) {
    ShareCommandOptions options;
    manuals.push_back(flags_of_share(command, options).manual());
  }
  return manuals;
}

}  // namespace kvkeep::cli
