#include <utility>

#include "command_words.h"
#include "doctor.h"
#include "flag_values.h"
#include "serve_flags.h"

namespace kvkeep::cli {
namespace {

// The flags that `parse` fills in before they mean anything together.
struct DoctorWords {
  DoctorOptions options;
  std::string serve_line;
};

FlagSet doctor_flags(DoctorWords& words) {
  return FlagSet(
      "kvkeep doctor [flags] [RECORDING...]",
      "Says why prompts are read again, and what to do: looks at the cache directory, its space and its disk, at "
      "the causes that kept prompts from being reused so far, and at a server's flags for settings that make caching "
      "useless. A RECORDING (HAR, JSONL as for kvkeep replay, a trace, or the JSON body of a request) is looked at "
      "without a server; - is standard input. With recordings the directory is left out, unless --kv-disk-dir or "
      "--serve is given. Exit status 1 if something is wrong.",
      {
          {.group = "Directory",
           .spelling = "--kv-disk-dir DIR",
           .environment = kDiskDirectoryVariable,
           .default_text = "kvkeep in the user's cache home",
           .effect = "The cache directory, as for kvkeep serve.",
           .assign = text_into(words.options.tiers.disk_directory)},
          {.spelling = "--disk-test, --no-disk-test",
           .effect = "Write and read a file of 32 MiB there to measure the disk.",
           .assign = switch_into(words.options.tests_disk)},
          {.group = "Server",
           .spelling = "--serve FLAGS",
           .default_text = "none",
           .effect = "Also look at these flags of kvkeep serve, given as one word: --serve '-m model.gguf -c 32k'.",
           .assign = text_into(words.serve_line)},
          {.group = "Output",
           .spelling = "--json",
           .effect = "Print JSON for programs (docs/explain.md).",
           .assign = switch_into(words.options.json)},
      });
}

// The variables of serve count as they would for the server.
Status read_server(const std::string& line, const os::Environment& environment, DoctorOptions& options) {
  if (line.empty()) return {};
  TRY_ASSIGN(std::vector<std::string> arguments, command_words(line));
  if (arguments.front() == "serve") arguments.erase(arguments.begin());
  auto parsed = parse_serve(arguments, environment);
  if (!parsed) return Error{parsed.error().kind, "--serve: " + parsed.error().message};
  if (parsed->wants_help) return invalid("--serve: flags of a server, not --help");
  options.server = std::move(parsed->options);
  return {};
}

}  // namespace

Result<ParsedDoctor> parse_doctor(const std::vector<std::string>& arguments, const os::Environment& environment) {
  DoctorWords words;
  ParsedDoctor parsed;
  TRY_ASSIGN(parsed.wants_help, doctor_flags(words).parse(arguments, environment, &words.options.files));
  if (parsed.wants_help) return parsed;
  TRY(read_server(words.serve_line, environment, words.options));
  // The server's directory, budget and reserve are those to look at, unless another directory was named.
  if (words.options.server) {
    const std::string named = words.options.tiers.disk_directory;
    words.options.tiers = words.options.server->tiers;
    if (!named.empty()) words.options.tiers.disk_directory = named;
  }
  parsed.options = std::move(words.options);
  return parsed;
}

std::string doctor_help() {
  DoctorWords words;
  return doctor_flags(words).help();
}

CommandManual doctor_manual() {
  DoctorWords words;
  return doctor_flags(words).manual();
}

}  // namespace kvkeep::cli
