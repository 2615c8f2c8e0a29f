#pragma once

// POST /v1/completions: body -> GenerationRequest. Replies are in reply.h.
//
// The prompt is a string (markers in it are parsed, as in llama-server), an array of token ids, or an array that holds
// exactly one of these. Several prompts in one request are refused.

#include <string_view>

#include "base/result.h"
#include "server/api/json_body.h"
#include "server/api/request.h"

namespace kvkeep::server::api {

// All errors are kInvalid (400).
Result<GenerationRequest> parse_completion(std::string body, const RequestDefaults& defaults);

// Reads only the field 'prompt'.
Result<PromptSource> read_prompt_field(const Json& prompt, std::size_t vocabulary_size);

}  // namespace kvkeep::server::api
