#pragma once

// `kvkeep warm`, which has a running server prefill a recorded request ahead of time: its command line, and the choice
// of the request. Pure.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "flag_set.h"
#include "server_address.h"

namespace kvkeep::cli {

// The API whose request it is, as /cache/warm names it.
enum class WarmDialect : std::uint8_t { kAny, kChat, kMessages, kResponses };

// ---- the command line: warm_flags.cc ----

struct WarmOptions {
  std::string file;  // "-": standard input
  ServerAddress server;
  WarmDialect dialect = WarmDialect::kAny;  // of the wanted request
  std::uint32_t keep_s = 0;
};

struct ParsedWarm {
  WarmOptions options;
  bool wants_help = false;  // print warm_help() and exit; `options` is meaningless then
};

// `arguments` are those after "warm". Errors are one line.
Result<ParsedWarm> parse_warm(const std::vector<std::string>& arguments, const os::Environment& environment);

std::string warm_help();
CommandManual warm_manual();

// ---- the choice: warm_request.cc ----

struct WarmRequest {
  WarmDialect dialect = WarmDialect::kChat;  // never kAny
  std::string body;                          // JSON
};

// Returns the request, if the text is a request's body. If it is a recording, returns the first request of the wanted
// API that has tools, because agents send side requests, for titles and the like, before the one with their long
// prompt; if none has, the first one. Fails with kInvalid if the text is neither, with kNotFound if the recording has
// no such request.
Result<WarmRequest> choose_warm_request(const std::string& file_name, std::string_view text, WarmDialect wanted);

}  // namespace kvkeep::cli
