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
  bool is_stream = false;  // false; true for the events of a stream that reports the error itself
};

// Status and type by kind: kInvalid 400, kNotFound 404, kNoSpace (it could never be served) 413, kUnsupported 501,
// kBusy and kAborted 503, else 500.
ErrorReply error_reply(const Error& error);

// Returns only the status, for dialects with other types and shapes: there an unsupported request is the client's
// fault, 400.
int status_of(ErrorKind kind);

// 400 for a prompt that leaves no room in the context; `is_counted`: its number of tokens is exact, not a lower bound.
// Clients compact their conversation when they see this type.
ErrorReply context_exceeded_reply(std::size_t prompt_tokens, bool is_counted, std::size_t context_tokens);

// The same error inside a stream that has begun: SSE bytes. No [DONE] comes after it.
std::string stream_error(const ErrorReply& reply);

}  // namespace kvkeep::server::api
