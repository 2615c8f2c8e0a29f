#pragma once

// Tells which command a command line names, and parses its flags. Pure.

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "bench_flags.h"
#include "cache_flags.h"
#include "doctor.h"
#include "model_command.h"
#include "serve_options.h"
#include "share_command_flags.h"
#include "top_flags.h"
#include "warm.h"

namespace kvkeep::cli {

// Text for standard output, then success: --help, --version.
struct PrintText {
  std::string text;
};

using Command =
    std::variant<PrintText, ServeOptions, ParsedModelMake, BenchCommandOptions, ReplayCommandOptions,
                 CacheCommandOptions, ShareCommandOptions, WarmOptions, DemoOptions, DoctorOptions, TopCommandOptions>;

// `arguments` are those after the program's name. Errors are one line, for standard error and a non-zero exit.
Result<Command> parse_command_line(const std::vector<std::string>& arguments, const os::Environment& environment);

// Returns true if the program was started by a name that says which command is meant: llama-server has none.
bool always_serves(std::string_view program);

std::string version_text();

// ---- the program as `man` and shells know it, made from the tables that parse its command lines; pure ----

// Returns all commands: serve, which may be left out, first.
std::vector<CommandManual> all_commands();

// Returns kvkeep(1) in the language of man(7). Every flag is in it, with its default and its variable.
std::string man_page(const std::vector<CommandManual>& commands);

enum class Shell { kBash, kZsh, kFish };

// Returns a script that completes commands, flags, words that a flag takes, and files.
std::string completions(Shell shell, const std::vector<CommandManual>& commands);

}  // namespace kvkeep::cli
