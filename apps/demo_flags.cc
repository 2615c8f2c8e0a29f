#include <utility>

#include "bench_flags.h"
#include "flag_values.h"

namespace kvkeep::cli {
namespace {

FlagSet demo_flags(DemoOptions& options) {
  std::vector<Flag> flags = {
      {.group = "Demo",
       .spelling = "-m, --model FILE",
       .default_text = "one with random weights, 25 MB",
       .effect = "GGUF file to serve.",
       .assign = text_into(options.model)},
      {.spelling = "--quick",
       .effect = "A tiny model and 6 turns: a check that all works.",
       .assign = switch_into(options.quick)},
  };
  return FlagSet("kvkeep demo [flags]",
                 "Plays two conversations that agents could have, with a kill -9 of the server in the middle, with and "
                 "without the cache, and shows what was prefilled. About a minute with the model that it makes. All "
                 "that it writes is removed afterwards.",
                 std::move(flags));
}

}  // namespace

Result<ParsedDemo> parse_demo(const std::vector<std::string>& arguments, const os::Environment& environment) {
  ParsedDemo parsed;
  TRY_ASSIGN(parsed.wants_help, demo_flags(parsed.options).parse(arguments, environment));
  return parsed;
}

std::string demo_help() {
  DemoOptions options;
  return demo_flags(options).help();
}

CommandManual demo_manual() {
  DemoOptions options;
  return demo_flags(options).manual();
}

}  // namespace kvkeep::cli
