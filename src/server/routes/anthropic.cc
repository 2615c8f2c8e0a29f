#include "server/routes/anthropic.h"

#include <utility>

#include "server/api/anthropic/errors.h"
#include "server/api/anthropic/reply.h"
#include "server/api/anthropic/request.h"
#include "server/routes/generation.h"
#include "server/routes/tenant.h"
#include "server/routes/unknown_fields.h"

namespace kvkeep::server {
namespace {

constexpr std::string_view kMessages = "/v1/messages";
constexpr std::string_view kCountTokens = "/v1/messages/count_tokens";

bool speaks_messages(const HttpRequest& head) {
  return head.path == kMessages || head.path.starts_with("/v1/messages/") || !head.header("anthropic-version").empty();
}

void messages(const Service& service, HttpRequest& http, ResponseWriter& writer) {
  Result<api::MessagesRequest> request = api::parse_messages(take_body(service, http), service.defaults);
  if (!request) return send_error(writer, api::anthropic_error_reply(request.error(), http.id));
  const api::ReplyHeader header = reply_header(service, "msg_");
  auto reply = std::make_unique<api::AnthropicReplyWriter>(header, http.id, request->generation, request->cache);
  generate(service, {"messages", header.id, api::Dialect::kMessages, std::move(request->generation), http, writer,
                     std::move(reply)});
}

Result<std::size_t> count_messages(const Service& service, HttpRequest& http, HeaderList& told) {
  TRY_ASSIGN(api::CountRequest request, api::parse_count_tokens(take_body(service, http), service.defaults));
  told = tell_of_unknown_fields(service, http, api::Dialect::kMessages, request.unknown_fields);
  const Tenant tenant = tenant_of(service, http, request.cache_salt);
  return count_prompt(service, http, request.model, std::move(request.prompt), tenant);
}

// Renders and tokenizes, without the model or the cache.
void count_tokens(const Service& service, HttpRequest& http, ResponseWriter& writer) {
  HeaderList told;
  const Result<std::size_t> tokens = count_messages(service, http, told);
  if (!tokens) return send_error(writer, api::anthropic_error_reply(tokens.error(), http.id));
  writer.send(200, api::kJsonContentType, api::to_line({{"input_tokens", *tokens}}), told);
}

}  // namespace

void add_anthropic_routes(HttpServer& server, const Service& service) {
  server.shape_errors({.applies = speaks_messages,
                       .make = [](int status, std::string_view message, std::string_view request_id) -> HttpError {
                         api::ErrorReply reply = api::anthropic_error(status, message, request_id);
                         return {reply.status, std::move(reply.body)};
                       }});
  const auto add = [&](std::string_view path, auto handler) {
    server.route("POST", std::string(path),
                 [&service, handler](HttpRequest& http, ResponseWriter& writer) { handler(service, http, writer); });
  };
  add(kMessages, messages);
  add(kCountTokens, count_tokens);
  server.route("GET", "/api/hello",
               [](const HttpRequest&, ResponseWriter& writer) {
                 writer.send(200, api::kJsonContentType, api::to_line({{"message", "hello"}}));
               },
               {.is_public = true, .is_light = true});
}

}  // namespace kvkeep::server
