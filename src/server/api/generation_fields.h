#pragma once

// The fields that all generating dialects share: sampling, stop strings, limits, streaming, and the refusals.

#include <string_view>
#include <vector>

#include "base/result.h"
#include "server/api/json_body.h"
#include "server/api/request.h"

namespace kvkeep::server::api {

// Reads everything but the prompt into `request`, which already holds the defaults. Unknown fields are tolerated.
Status read_generation_fields(const Json& body, const RequestDefaults& defaults, GenerationRequest& request);

// kInvalid if the body asks for something that this server does not do: the client would take the reply for something
// it is not. A field at its neutral value (n: 1, n_keep: 0, logprobs: false) asks for nothing.
Status refuse_unsupported(const Json& body);
// Returns the fields that may be refused so; docs/requests.md lists them.
std::vector<std::string_view> refused_fields();

// Reads how many tokens a thought may have; -1 leaves the number to the server.
Status read_thinking_budget(const Json& holder, std::string_view name, engine::SamplingParams& sampling);

// Reads ids in an array; kInvalid for any other value in it, and for ids outside the vocabulary.
Result<std::vector<TokenId>> read_token_ids(const Json& array, std::string_view name, std::size_t vocabulary_size);

}  // namespace kvkeep::server::api
