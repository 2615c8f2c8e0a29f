#pragma once

// `kvkeep top`: its command line. The command itself is run_top() of commands.h.

#include <string>
#include <vector>

#include "base/result.h"
#include "flag_set.h"
#include "server_address.h"
#include "top/frame.h"

namespace kvkeep::cli {

struct TopCommandOptions {
  ServerAddress server;

  // Between two looks at the server. A look costs it as much as one light request.
  double interval_s = 1;

  // The list that is shown first.
  top::List list = top::List::kRequests;

  // Prints one frame as text, and ends.
  bool once = false;
};

struct ParsedTop {
  TopCommandOptions options;
  bool wants_help = false;  // print top_help() and exit; `options` is meaningless then
};

// `arguments` are those after "top". Pure: no file is opened. Errors are one line.
Result<ParsedTop> parse_top(const std::vector<std::string>& arguments, const os::Environment& environment);

// The text of --help.
std::string top_help();

// For the man page and the completions.
CommandManual top_manual();

}  // namespace kvkeep::cli
