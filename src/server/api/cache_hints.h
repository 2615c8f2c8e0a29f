#pragma once

// What OpenAI's requests say of how long their prompt is worth keeping: `prompt_cache_retention` and
// `prompt_cache_options`. Pure. Anthropic's marks: anthropic_cache_control.h.

#include <cstdint>

#include "base/result.h"
#include "server/api/json_body.h"

namespace kvkeep::server::api {

// With whom the request shares cached state: `cache_salt`, as in vLLM; "": with all that name none. kInvalid unless it
// is a string of 1 to 256 bytes.
Result<std::string> read_cache_salt(const Json& body);

// Seconds for which prompt and reply are to be kept, the longest time named; 0: nothing is asked for. At most a day.
// kInvalid: a value that the API does not know.
Result<std::int64_t> read_keep_s(const Json& body);

}  // namespace kvkeep::server::api
