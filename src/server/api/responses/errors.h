#pragma once

// Errors in the shape of OpenAI's Responses API:
// {"error":{"message":"...","type":"invalid_request_error","param":"input[0].content","code":null}}.

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"
#include "server/api/errors.h"
#include "server/api/json_body.h"

namespace kvkeep::server::api {

// Makes the error for a status of HTTP. `param` is the field that the message begins with in quotes, if any.
ErrorReply responses_error(int status, std::string_view message);

// Status by kind: kInvalid and kUnsupported 400, kNotFound 404, kBusy, kNoSpace and kAborted 503, else 500.
ErrorReply responses_error_reply(const Error& error);

// A 400 with the code that clients look for before they shorten a conversation, and both numbers. `is_counted`: the
// number of tokens is exact, not a lower bound.
ErrorReply input_too_long_reply(std::size_t prompt_tokens, bool is_counted, std::size_t context_tokens);

// The answer to requests under /v1/responses/: nothing is stored, so that no id is known.
ErrorReply response_not_found();

// Returns the `error` of a body that one of these functions made.
Json error_of(const ErrorReply& reply);

}  // namespace kvkeep::server::api
