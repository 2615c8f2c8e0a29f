#pragma once

// POST /v1/completions: body -> GenerationRequest. Replies are in reply.h.
//
// A prompt is a string (markers in it are parsed, as in llama-server), an array of token ids, or an array of both in
// turn. The field 'prompt' holds one, or several in an array: of strings only, or with an array for each prompt that is
// no string.

#include <string>
#include <vector>

#include "base/result.h"
#include "server/api/json_body.h"
#include "server/api/request.h"

namespace kvkeep::server::api {

// Whose fields and replies: /v1/completions, or llama-server's /completion.
enum class CompletionShape { kOpenAi, kNative };

// All errors are kInvalid (400).
Result<GenerationRequest> parse_completion(std::string body, const RequestDefaults& defaults,
                                           CompletionShape shape = CompletionShape::kOpenAi);

// Reads everything but the prompt that llama-server's own requests may have.
Status read_native_fields(const Json& body, const RequestDefaults& defaults, GenerationRequest& request);

// Read only the field 'prompt': all prompts, not empty; or one, kInvalid if there are more.
Result<std::vector<PromptSource>> read_prompts(const Json& prompt, MediaReader& media, std::size_t vocabulary_size);
Result<PromptSource> read_prompt_field(const Json& prompt, MediaReader& media, std::size_t vocabulary_size);

}  // namespace kvkeep::server::api
