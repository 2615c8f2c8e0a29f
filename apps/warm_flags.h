#pragma once

// The command line of `kvkeep warm`, which has a running server prefill a recorded request ahead of time.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "flag_set.h"

namespace kvkeep::cli {

// The API whose request it is, as /cache/warm names it.
enum class WarmDialect { kAny, kChat, kMessages, kResponses };

struct WarmOptions {
  std::string file;  // "-": standard input
  std::string url = "http://127.0.0.1:8080";
  std::string api_key;
  WarmDialect dialect = WarmDialect::kAny;  // of the wanted request
  std::uint32_t keep_s = 0;
};

struct ParsedWarm {
  WarmOptions options;
  bool wants_help = false;  // print warm_help() and exit; `options` is meaningless then
};

// `arguments` are those after "warm". Pure: the file is not opened. Errors are one line.
Result<ParsedWarm> parse_warm(const std::vector<std::string>& arguments, const os::Environment& environment);

std::string warm_help();
CommandManual warm_manual();

}  // namespace kvkeep::cli
