#pragma once

// POST /v1/responses and /v1/responses/input_tokens: body -> GenerationRequest. In this folder replies and errors are
// in reply.h, the conversation in items.h, tools in tools.h. docs/responses.md says what is obeyed, refused and
// ignored.
//
// Nothing is stored: every request brings its whole conversation, as clients do with "store": false.

#include <string>
#include <string_view>

#include "base/result.h"
#include "server/api/request.h"
#include "server/api/responses/tools.h"

namespace kvkeep::server::api {

struct ResponsesRequest {
  GenerationRequest generation;
  ClientTools tools;
  Json echo;  // the part of the request that a response repeats, with defaults filled in
};

// All errors are kInvalid (400). llama-server's fields (seed, min_p, cache_prompt, chat_template_kwargs...) are read as
// in the other dialects.
Result<ResponsesRequest> parse_responses(std::string body, const RequestDefaults& defaults);

// Reads the prompt out of such a body.
Result<chat::RenderInput> read_responses_prompt(const Json& body, MediaReader media, const RequestDefaults& defaults);

// Parses the same body; reads only the fields that shape the prompt.
Result<CountRequest> parse_input_tokens(std::string body, const RequestDefaults& defaults);

}  // namespace kvkeep::server::api
