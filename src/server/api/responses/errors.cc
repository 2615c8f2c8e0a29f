#include "server/api/responses/errors.h"

#include <fmt/format.h>

#include <utility>

namespace kvkeep::server::api {
namespace {

std::string_view responses_type_of(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 429: return "rate_limit_error";
    default: return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

Json code_of(int status) {
  if (status == 401) return "invalid_api_key";
  return nullptr;
}

Json param_of(std::string_view message) {
  if (!message.starts_with('\'')) return nullptr;
  const std::size_t end = message.find('\'', 1);
  return end == std::string_view::npos ? Json() : Json(message.substr(1, end - 1));
}

ErrorReply reply(int status, Json error) { return {status, to_line({{"error", std::move(error)}})}; }

}  // namespace

ErrorReply responses_error(int status, std::string_view message) {
  return reply(status, {{"message", message},
                        {"type", responses_type_of(status)},
                        {"param", status == 400 ? param_of(message) : Json()},
                        {"code", code_of(status)}});
}

ErrorReply responses_error_reply(const Error& error) { return responses_error(status_of(error.kind), error.message); }

ErrorReply input_too_long_reply(std::size_t prompt_tokens, bool is_counted, std::size_t context_tokens) {
  const std::string message =
      fmt::format("Your input exceeds the context window of this model: {}{} tokens of input, {} of context",
                  is_counted ? "" : "at least ", prompt_tokens, context_tokens);
  return reply(400, {{"message", message},
                     {"type", "invalid_request_error"},
                     {"param", "input"},
                     {"code", "context_length_exceeded"},
                     {"n_prompt_tokens", prompt_tokens},
                     {"n_ctx", context_tokens}});
}

ErrorReply response_not_found() {
  return reply(404, {{"message",
                      "No such response: responses are not stored here (their 'store' is false). Keep the response, "
                      "and send it again within 'input'"},
                     {"type", "invalid_request_error"},
                     {"param", nullptr},
                     {"code", "not_found"}});
}

Json error_of(const ErrorReply& reply) {
  const Json body = Json::parse(reply.body, nullptr, /*allow_exceptions=*/false);
  return body.is_object() && body.contains("error") ? body["error"] : Json::object();
}

}  // namespace kvkeep::server::api
