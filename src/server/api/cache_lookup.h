#pragma once

// POST /cache/lookup: body -> the prompt to look up. The reply is in server/trace/trace_file.h.

#include <string>
#include <string_view>

#include "base/result.h"
#include "server/api/request.h"

namespace kvkeep::server::api {

struct LookupRequest {
  PromptSource prompt;
  bool cache_prompt = true;     // false: as for a request that would not use the cache
  std::string cache_salt = {};  // as in a request
  std::vector<std::string> unknown_fields = {};
  std::optional<engine::AdapterScales> adapters = {};  // empty: the server's
  bool index_only = false;                             // the index alone answers, without the engine thread
};

// The body has exactly one of {messages, ...} as in /v1/chat/completions, {prompt} as in /v1/completions, and {tokens};
// and optionally {cache_prompt}, {cache_salt} and {lora} as in both, and {index_only}. All errors are kInvalid (400).
Result<LookupRequest> parse_lookup(std::string body, const RequestDefaults& defaults);

}  // namespace kvkeep::server::api
