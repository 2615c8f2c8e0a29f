#include "bench_flags.h"

#include <iterator>
#include <utility>

#include "command_words.h"
#include "flag_values.h"

namespace kvkeep::cli {

std::vector<Flag> report_flags(ReportFiles& files) {
  return {
      {.group = "Report",
       .spelling = "--json FILE",
       .effect = "Write all results as JSON, for programs.",
       .assign = text_into(files.json)},
      {.spelling = "--html FILE",
       .effect = "Write one self-contained HTML page that draws the results.",
       .assign = text_into(files.html)},
  };
}

namespace {

constexpr char kBenchCommand[] = "kvkeep bench [flags] [WORKLOAD...]";
constexpr char kBenchDescription[] =
    "Plays workloads against kvkeep, and in turn against another server, and reports how much was computed for what "
    "had to be computed: prefilled tokens / tokens never computed before, counted at the engine. WORKLOAD is a name "
    "that --list prints or a file that ends with .txt (docs/bench.md); without one, all workloads that come with "
    "kvkeep are played. Exit status 1: a ratio is above its bound, a goal is missed, or the figures in a reply differ "
    "from the counts; 3: nothing is wrong, but a goal could not be measured on this machine.";

std::vector<Flag> run_flags(BenchCommandOptions& options) {
  return {
      {.group = "Run",
       .spelling = "--quick",
       .effect = "Use a tiny model: all workloads take a minute or two. Counts are the same each time.",
       .assign = switch_into(options.quick)},
      {.spelling = "--variants",
       .effect = "Also use a context too small for all sessions, no RAM tier, and --restore auto; these have no bound.",
       .assign = switch_into(options.variants)},
      {.spelling = "--parts",
       .effect = "Also time parts of the cache inside this process: restore, capture, lookup.",
       .assign = switch_into(options.parts)},
      {.spelling = "--parity",
       .effect = "Also compare the time per token without cached state with --peer's, with one thread and with the "
                 "default number. Takes minutes and needs a quiet machine.",
       .assign = switch_into(options.parity)},
      {.spelling = "--pairs N",
       .default_text = "15, with --load 3; with --quick 3 and 1",
       .effect = "Pairs of runs for --parity, in each of its two settings, and of turns for --pictures; runs of each "
                 "server for --load.",
       .assign = number_into(options.pairs, std::uint32_t{1}, std::uint32_t{1'000})},
      {.spelling = "--speed",
       .effect = "Also measure the time the cache saves: a long prompt, one 3 % longer; 12 turns with and without it.",
       .assign = switch_into(options.speed)},
      {.spelling = "--pictures",
       .effect =
           "Also measure a turn after pictures that are known, next to a turn after text of as many tokens. Needs a "
           "model that sees: --mmproj, or --arch.",
       .assign = switch_into(options.pictures)},
      {.spelling = "--share URL",
       .default_text = "none",
       .effect =
           "Also count what two servers prefill that share this engine, as --share of serve names it, and no disk.",
       .assign = text_into(options.share_url)},
      {.spelling = "--load",
       .effect = "Also ask for many replies at the same time, with --peer in turn: streams together, next to a cold "
                 "prefill and after one, a herd, agents, 256 clients and more, a full queue. Takes minutes.",
       .assign = switch_into(options.load)},
      {.spelling = "--scenarios LIST",
       .default_text = "all",
       .effect = "Of --load: some of short, gap, one, streams, long-streams, shared-streams, herd, agents, clients, "
                 "held, full.",
       .assign = parsed_into(options.scenarios, parse_list)},
      {.spelling = "--no-workloads",
       .effect = "Play no workloads: measure only --parts, --parity, --speed, --pictures, --share and --load.",
       .assign = switch_into(options.no_workloads)},
      {.spelling = "--list",
       .effect = "Print the workloads that come with kvkeep and exit.",
       .assign = switch_into(options.list)},
  };
}

std::vector<Flag> bench_server_flags(BenchCommandOptions& options) {
  return {
      {.group = "Servers",
       .spelling = "-m, --model FILE",
       .default_text = "a generated one",
       .effect = "GGUF file to serve.",
       .assign = text_into(options.model)},
      {.spelling = "-mm, --mmproj FILE",
       .default_text = "of a generated model that sees, a generated one",
       .effect = "Projector of --model, for workloads that show pictures.",
       .assign = text_into(options.projector)},
      {.spelling = "--size tiny|small|real",
       .default_text = "small; tiny with --quick",
       .effect = "Size of the generated model.",
       .assign = [&options](const std::string& text) -> Status {
         if (const auto size = gguf::parse_model_size(text); !size) return size.error();
         options.size = text;
         return {};
       }},
      {.spelling = "--arch NAME",
       .default_text = "llama",
       .effect = "Architecture of the generated model, by the class of its memory: " +
                 gguf::architectures_by_memory_class() + ".",
       .assign = text_into(options.architecture)},
      {.spelling = "--flag FLAG",
       .default_text = "none",
       .effect = "One more flag for kvkeep, as --flag=--no-cache-prompt. May be repeated.",
       .assign = [&options](const std::string& text) -> Status {
         if (text == "--kv-disk-dir" || text.starts_with("--kv-disk-dir=")) {
           return invalid(
               "each run begins with an empty directory of its own: state from an earlier run would count as known");
         }
         options.kvkeep_flags.push_back(text);
         return {};
       }},
      {.spelling = "--peer COMMAND",
       .default_text = "none",
       .effect = "Play this server in turn with kvkeep, such as 'llama-server'. Model, context and one thread are "
                 "added if COMMAND does not set them.",
       .assign = parsed_into(options.peer_command, [](const std::string& text) { return command_words(text); })},
      {.spelling = "--peer-url URL",
       .effect = "Play a running server in turn with kvkeep. Its counts are read from its replies; it is not killed.",
       .assign = text_into(options.peer_url)},
  };
}

std::vector<Flag> keep_flags(BenchCommandOptions& options) {
  return {
      {.group = "Comparison",
       .spelling = "--check FILE",
       .effect =
           "Compare ratios and counts, never times, with a kept report; if any is worse, print a line for each and "
           "return exit status 1.",
       .assign = text_into(options.check)},
      {.spelling = "--keep FILE",
       .effect = "Write the report that --check reads: without times, machine and versions.",
       .assign = text_into(options.keep)},
  };
}

FlagSet bench_flags(BenchCommandOptions& options) {
  std::vector<Flag> flags;
  for (std::vector<Flag>& more : std::vector{run_flags(options), bench_server_flags(options),
                                             report_flags(options.reports), keep_flags(options)}) {
    flags.insert(flags.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  }
  return FlagSet(kBenchCommand, kBenchDescription, std::move(flags));
}

}  // namespace

gguf::ModelSize BenchCommandOptions::model_size() const {
  if (size.empty()) return quick ? gguf::ModelSize::kTiny : gguf::ModelSize::kSmall;
  return gguf::parse_model_size(size).value();  // --size was checked when it was given
}

Result<ParsedBench> parse_bench(const std::vector<std::string>& arguments, const os::Environment& environment) {
  ParsedBench parsed;
  BenchCommandOptions& options = parsed.options;
  TRY_ASSIGN(parsed.wants_help, bench_flags(options).parse(arguments, environment, &options.workloads));
  if (parsed.wants_help) return parsed;
  if (!options.peer_command.empty() && !options.peer_url.empty()) {
    return invalid("--peer starts a server, --peer-url names a running one: give one of them");
  }
  if (!options.model.empty() && !options.size.empty()) {
    return invalid("--size is for generated models: leave it out with --model");
  }
  if (!options.model.empty() && !options.architecture.empty()) {
    return invalid("--arch is for generated models: leave it out with --model");
  }
  if (options.model.empty() && !options.projector.empty()) {
    return invalid("--mmproj is for a model of yours: name it with --model");
  }
  if (options.parity && options.peer_command.empty()) {
    return invalid("--parity compares with a server that is started: name it with --peer");
  }
  if (options.no_workloads && !options.workloads.empty()) {
    return invalid("--no-workloads plays none: leave out '" + options.workloads.front() + "'");
  }
  if (options.pairs > 0 && !options.parity && !options.pictures && !options.load) {
    return invalid("--pairs needs --parity, --pictures or --load: add one of them");
  }
  if (!options.scenarios.empty() && !options.load) return invalid("--scenarios needs --load: add it");
  if (options.load && !options.peer_url.empty()) {
    return invalid("--load compares with a server that is started: name it with --peer");
  }
  const bool measures_more = options.parts || options.parity || options.speed || options.pictures ||
                             !options.share_url.empty() || options.load;
  if (options.no_workloads && !measures_more) {
    return invalid("nothing to measure: add --parts, --parity, --speed, --pictures, --share or --load");
  }
  return parsed;
}

std::string bench_help() {
  BenchCommandOptions options;
  return bench_flags(options).help();
}

CommandManual bench_manual() {
  BenchCommandOptions options;
  return bench_flags(options).manual();
}

namespace {

constexpr char kReplayCommand[] = "kvkeep replay [flags] FILE...";
constexpr char kReplayDescription[] =
    "Plays recorded sessions against a server and reports, per request and in total, how many tokens were cached "
    "and computed, and how many a perfect cache would have computed. FILE is JSONL (docs/bench.md), kvkeep's own trace "
    "or a HAR file; - is standard input: xz -dc FILE.xz | kvkeep replay --url URL -";

std::vector<Flag> replay_server_flags(ReplayCommandOptions& options) {
  std::vector<Flag> flags = {
      {.group = "Server",
       .spelling = "--url URL",
       .effect = "Play against a running server: http://127.0.0.1:8080",
       .assign = text_into(options.server.url)},
      {.spelling = "--server COMMAND",
       .effect = "Start this server and stop it afterwards: 'llama-server -m FILE'. --host and --port are added.",
       .assign = text_into(options.server_command)},
  };
  // Keys in recordings are never sent.
  for (Flag& flag : key_flags(options.server)) flags.push_back(std::move(flag));
  flags.push_back({.spelling = "-to, --timeout N",
                   .effect = "Longest wait for the next byte of a reply, in seconds.",
                   .assign = number_into(options.timeout_s, std::uint32_t{1}, std::uint32_t{86'400})});
  return flags;
}

std::vector<Flag> playing_flags(ReplayCommandOptions& options) {
  return {
      {.group = "Playing",
       .spelling = "--fast",
       .effect = "Leave out the pauses between requests. Requests that overlapped in the recording still overlap.",
       .assign = switch_into(options.fast)},
      {.spelling = "--echo WHAT",
       .effect = "The assistant's turns in later requests: recorded ones, or generated by this server where they fit.",
       .assign = choice_into(options.echo_generated, {{"recorded", false}, {"generated", true}})},
      {.spelling = "--model NAME",
       .default_text = "as recorded",
       .effect = "Model name to send.",
       .assign = text_into(options.model)},
      {.spelling = "--reply-tokens N",
       .default_text = "as recorded",
       .effect = "Most tokens in a reply.",
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
  // Recorded paths begin with /v1, too.
  TRY_ASSIGN(parsed.wants_help,
             parse_with_address(replay_flags(options), options.server, arguments, environment, &options.files));
  if (parsed.wants_help) return parsed;
  if (options.files.empty()) return invalid("no recording to play: kvkeep replay [flags] FILE...");
  if (options.server.url.empty() == options.server_command.empty()) {
    return invalid("name one server to play against: --url http://127.0.0.1:8080, or --server 'COMMAND'");
  }
  return parsed;
}

std::string replay_help() {
  ReplayCommandOptions options;
  return replay_flags(options).help();
}

CommandManual replay_manual() {
  ReplayCommandOptions options;
  return replay_flags(options).manual();
}

}  // namespace kvkeep::cli
