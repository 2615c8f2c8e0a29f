#pragma once

// Tells which command a command line names, and parses its flags. Pure.

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "bench_flags.h"
#include "cache_flags.h"
#include "model_command.h"
#include "serve_options.h"

namespace kvkeep::cli {

// Text for standard output, then success: --help, --version.
struct PrintText {
  std::string text;
};

using Command = std::variant<PrintText, ServeOptions, ParsedModelMake, BenchCommandOptions, ReplayCommandOptions,
                             CacheCommandOptions>;

// `arguments` are those after the program's name. Errors are one line, for standard error and a non-zero exit.
Result<Command> parse_command_line(const std::vector<std::string>& arguments, const os::Environment& environment);

// Returns true if the program was started by a name that says which command is meant: llama-server has none.
bool always_serves(std::string_view program);

std::string version_text();

}  // namespace kvkeep::cli
