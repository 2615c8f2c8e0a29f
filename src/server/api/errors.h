#pragma once

// Error bodies in the shape of llama-server and OpenAI: {"error":{"code":400,"message":"...","type":"..."}}.

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kvkeep::server::api {

struct ErrorReply {
  int status = 500;
  std::string body;        // JSON
  bool is_stream = false;  // no: the events of a stream that tells of the error itself
};

// Status and type by kind: kInvalid 400, kNotFound 404, kUnsupported 501, kBusy, kNoSpace and kAborted 503, else 500.
ErrorReply error_reply(const Error& error);

// The status alone, for dialects whose types and shapes are others. What is not supported is the request's fault there:
// 400.
int status_of(ErrorKind kind);

// 400: a prompt that leaves no room in the context; `is_counted`: its tokens are no lower bound. Clients compact their
// conversation when they see this type.
ErrorReply context_exceeded_reply(std::size_t prompt_tokens, bool is_counted, std::size_t context_tokens);

// The same error inside a stream that has begun: SSE bytes. No [DONE] follows it.
std::string stream_error(const ErrorReply& reply);

}  // namespace kvkeep::server::api
