#pragma once

// How long OpenAI's clients want their prompt to be kept: `prompt_cache_retention` and `prompt_cache_options`. Pure.
// Anthropic's marks are in anthropic/cache_control.h.

#include <cstdint>

#include "base/result.h"
#include "server/api/json_body.h"

namespace kvkeep::server::api {

// Returns `cache_salt`, as in vLLM: the request shares cached state with requests of the same salt; "" if it has none.
// kInvalid unless the salt is a string of 1 to 256 bytes.
Result<std::string> read_cache_salt(const Json& body);

// Returns the seconds for which prompt and reply should be kept, at most a day: the longest time named, or 0 if none
// is. kInvalid for a value that the API does not know.
Result<std::int64_t> read_keep_s(const Json& body);

}  // namespace kvkeep::server::api
