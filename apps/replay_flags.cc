#include "replay_flags.h"

#include <utility>

#include "flag_values.h"

namespace kvkeep::cli {
namespace {

constexpr char kReplayCommand[] = "kvkeep replay [flags] FILE...";
constexpr char kReplayDescription[] =
    "Plays recorded sessions against a server and says, per request and in total, what was cached, what was computed "
    "and what a perfect cache would have had to compute. FILE is JSONL (docs/bench.md), kvkeep's own trace or a HAR "
    "file; - is standard input: xz -dc FILE.xz | kvkeep replay --url URL -";

std::vector<Flag> replay_server_flags(ReplayCommandOptions& options) {
  return {
      {.group = "Server",
       .spelling = "--url URL",
       .effect = "Play against a running server: http://127.0.0.1:8080",
       .assign = text_into(options.url)},
      {.spelling = "--server COMMAND",
       .effect = "Start this server and stop it afterwards: 'llama-server -m FILE'. --host and --port are added.",
       .assign = text_into(options.server_command)},
      {.spelling = "--api-key KEY",
       .effect = "Key to send. Recorded keys are never sent.",
       .assign = text_into(options.api_key)},
      {.spelling = "-to, --timeout N",
       .effect = "Longest wait for another byte of a reply, in seconds.",
       .assign = number_into(options.timeout_s, std::uint32_t{1}, std::uint32_t{86'400})},
  };
}

std::vector<Flag> playing_flags(ReplayCommandOptions& options) {
  return {
      {.group = "Playing",
       .spelling = "--fast",
       .effect = "No pauses. What overlapped in the recording still does.",
       .assign = switch_into(options.fast)},
      {.spelling = "--echo WHAT",
       .effect =
           "The assistant's turns in later requests: recorded, or generated, what this server said, where it fits.",
       .assign = choice_into(options.echo_generated, {{"recorded", false}, {"generated", true}})},
      {.spelling = "--model NAME",
       .default_text = "as recorded",
       .effect = "Model to ask for.",
       .assign = text_into(options.model)},
      {.spelling = "--reply-tokens N",
       .default_text = "as recorded",
       .effect = "Most tokens of a reply.",
       .assign = [&options](const std::string& text) -> Status {
         TRY_ASSIGN(options.reply_tokens, parse_number(text, std::uint32_t{1}, std::uint32_t{1'000'000'000}));
         return {};
       }},
      {.spelling = "--in-flight N",
       .effect = "Most requests at the same time, at most 32.",
       .assign = number_into(options.in_flight_max, std::uint32_t{1}, std::uint32_t{32})},
  };
}

FlagSet replay_flags(ReplayCommandOptions& options) {
  std::vector<Flag> flags = replay_server_flags(options);
  for (std::vector<Flag>& more : std::vector{playing_flags(options), report_flags(options.reports)}) {
    for (Flag& flag : more) flags.push_back(std::move(flag));
  }
  return FlagSet(kReplayCommand, kReplayDescription, std::move(flags));
}

}  // namespace

Result<ParsedReplay> parse_replay(const std::vector<std::string>& arguments, const os::Environment& environment) {
  ParsedReplay parsed;
  ReplayCommandOptions& options = parsed.options;
  TRY_ASSIGN(parsed.wants_help, replay_flags(options).parse(arguments, environment, &options.files));
  if (parsed.wants_help) return parsed;
  if (options.files.empty()) return invalid("no recording to play: kvkeep replay [flags] FILE...");
  if (options.url.empty() == options.server_command.empty()) {
    return invalid("name one server to play against: --url http://127.0.0.1:8080, or --server 'COMMAND'");
  }
  // Clients are told the base URL with it; recorded paths begin with it.
  if (options.url.ends_with('/')) options.url.pop_back();
  if (options.url.ends_with("/v1")) options.url.resize(options.url.size() - 3);
  return parsed;
}

std::string replay_help() {
  ReplayCommandOptions options;
  return replay_flags(options).help();
}

}  // namespace kvkeep::cli
