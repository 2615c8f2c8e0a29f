#pragma once

// The command line of `kvkeep replay`.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "flag_set.h"
#include "report_files.h"

namespace kvkeep::cli {

struct ReplayCommandOptions {
  std::vector<std::string> files;  // "-": standard input
  std::string url;                 // of a running server
  std::string server_command;      // or the command that starts one; exactly one of the two is given
  std::string model;               // empty: as recorded
  std::string api_key;
  bool fast = false;
  bool echo_generated = false;
  std::optional<std::uint32_t> reply_tokens;
  std::uint32_t in_flight_max = 32;
  std::uint32_t timeout_s = 600;
  ReportFiles reports;
};

struct ParsedReplay {
  ReplayCommandOptions options;
  bool wants_help = false;  // print replay_help() and exit; `options` is meaningless then
};

// `arguments` are those after "replay". Pure: files named in them are not opened. Errors are one line.
Result<ParsedReplay> parse_replay(const std::vector<std::string>& arguments, const os::Environment& environment);

std::string replay_help();

}  // namespace kvkeep::cli
