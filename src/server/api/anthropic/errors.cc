#include "server/api/anthropic/errors.h"

#include <fmt/format.h>

#include "server/api/json_body.h"

namespace kvkeep::server::api {
namespace {

constexpr int kOverloaded = 529;

int api_status(int status) {
  if (status == 501) return 400;
  return status == 503 ? kOverloaded : status;
}

std::string_view anthropic_type_of(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 413: return "request_too_large";
    case 429: return "rate_limit_error";
    case kOverloaded: return "overloaded_error";
    default: return status >= 500 ? "api_error" : "invalid_request_error";
  }
}

}  // namespace

ErrorReply anthropic_error(int status, std::string_view message, std::string_view request_id) {
  const int known = api_status(status);
  const Json json = {{"type", "error"},
                     {"error", {{"type", anthropic_type_of(known)}, {"message", message}}},
                     {"request_id", request_id}};
  return {known, to_line(json)};
}

ErrorReply anthropic_error_reply(const Error& error, std::string_view request_id) {
  return anthropic_error(status_of(error.kind), error.message, request_id);
}

ErrorReply prompt_too_long_reply(std::size_t prompt_tokens, std::size_t context_tokens, std::string_view request_id) {
  // One token of the context is for the reply. Programs read the two numbers, people the rest.
  const std::size_t most = context_tokens == 0 ? 0 : context_tokens - 1;
  return anthropic_error(
      400,
      fmt::format("prompt is too long: {} tokens > {} maximum (a context of {}, less one token for the "
                  "reply)",
                  prompt_tokens, most, context_tokens),
      request_id);
}

std::string anthropic_stream_error(const ErrorReply& reply) {
  return fmt::format("event: error\ndata: {}\n\n", reply.body);
}

}  // namespace kvkeep::server::api
