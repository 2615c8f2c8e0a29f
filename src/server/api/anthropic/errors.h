#pragma once

// Errors in the shape of the Messages API:
// {"type":"error","error":{"type":"invalid_request_error","message":"..."},"request_id":"req_..."}.

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"
#include "server/api/errors.h"

namespace kvkeep::server::api {

// Makes the error for a status of HTTP: 503 becomes 529 and 501 becomes 400, since the API has neither, and its clients
// decide by status whether to try again.
ErrorReply anthropic_error(int status, std::string_view message, std::string_view request_id);

// Status by kind: kInvalid and kUnsupported 400, kNotFound 404, kBusy, kNoSpace and kAborted 529, else 500.
ErrorReply anthropic_error_reply(const Error& error, std::string_view request_id);

// A 400 in the words that clients look for: from both numbers they know how much to leave out. `prompt_tokens` may be a
// lower bound, as long as it is at least context_tokens.
ErrorReply prompt_too_long_reply(std::size_t prompt_tokens, std::size_t context_tokens, std::string_view request_id);

// The same error inside a stream that has begun.
std::string anthropic_stream_error(const ErrorReply& reply);

}  // namespace kvkeep::server::api
