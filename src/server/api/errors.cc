#include "server/api/errors.h"

#include <fmt/format.h>

#include "server/api/json_body.h"

namespace kvkeep::server::api {
namespace {

struct StatusAndType {
  int status;
  std::string_view type;
};

StatusAndType status_and_type_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalid: return {400, "invalid_request_error"};
    case ErrorKind::kNotFound: return {404, "not_found_error"};
    case ErrorKind::kUnsupported: return {501, "not_supported_error"};
    case ErrorKind::kNoSpace: return {413, "invalid_request_error"};
    case ErrorKind::kBusy:
    case ErrorKind::kAborted: return {503, "unavailable_error"};
    case ErrorKind::kDamaged:
    case ErrorKind::kIo: break;
  }
  return {500, "server_error"};
}

}  // namespace

int status_of(ErrorKind kind) { return kind == ErrorKind::kUnsupported ? 400 : status_and_type_of(kind).status; }

ErrorReply error_reply(const Error& error) {
  const auto [status, type] = status_and_type_of(error.kind);
  const Json json = {{"error", {{"code", status}, {"message", error.message}, {"type", type}}}};
  return {status, to_line(json)};
}

ErrorReply context_exceeded_reply(std::size_t prompt_tokens, bool is_counted, std::size_t context_tokens) {
  const std::string message =
      fmt::format("request ({}{} tokens) exceeds the available context size ({} tokens{}), try increasing it",
                  is_counted ? "" : "at least ", prompt_tokens, context_tokens,
                  prompt_tokens == context_tokens ? ", one of them for the reply" : "");
  const Json json = {{"error",
                      {{"code", 400},
                       {"message", message},
                       {"type", "exceed_context_size_error"},
                       {"n_prompt_tokens", prompt_tokens},
                       {"n_ctx", context_tokens}}}};
  return {400, to_line(json)};
}

std::string stream_error(const ErrorReply& reply) { return std::string("data: ").append(reply.body).append("\n\n"); }

}  // namespace kvkeep::server::api
