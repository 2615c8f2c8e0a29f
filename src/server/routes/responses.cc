#include "server/routes/responses.h"

#include <string>
#include <utility>

#include "server/api/responses/errors.h"
#include "server/api/responses/reply.h"
#include "server/api/responses/request.h"
#include "server/routes/generation.h"
#include "server/routes/tenant.h"
#include "server/routes/unknown_fields.h"

namespace kvkeep::server {
namespace {

constexpr std::string_view kResponses = "/v1/responses";
constexpr std::string_view kShort = "/responses";

// Whether `head` asks for a path below one of the API's own.
bool is_below(const HttpRequest& head, std::string_view path) {
  return head.path == path || (head.path.starts_with(path) && head.path[path.size()] == '/');
}

bool speaks_responses(const HttpRequest& head) { return is_below(head, kResponses) || is_below(head, kShort); }

void responses(const Service& service, HttpRequest& http, ResponseWriter& writer) {
  Result<api::ResponsesRequest> request = api::parse_responses(take_body(service, http), service.defaults);
  if (!request) return send_error(writer, api::responses_error_reply(request.error()));
  const api::ReplyHeader header = reply_header(service, "resp_");
  auto reply = std::make_unique<api::ResponsesReplyWriter>(header, request->generation, std::move(request->tools),
                                                           std::move(request->echo));
  generate(service, {"responses", header.id, api::Dialect::kResponses, std::move(request->generation), http, writer,
                     std::move(reply)});
}

Result<std::size_t> count_input(const Service& service, HttpRequest& http, HeaderList& told) {
  TRY_ASSIGN(api::InputTokensRequest request, api::parse_input_tokens(take_body(service, http), service.defaults));
  told = tell_of_unknown_fields(service, http, api::Dialect::kResponses, request.unknown_fields);
  const Tenant tenant = tenant_of(service, http, request.cache_salt);
  return count_prompt(service, http, request.model, std::move(request.prompt), tenant);
}

// Renders and tokenizes, without the model or the cache.
void input_tokens(const Service& service, HttpRequest& http, ResponseWriter& writer) {
  HeaderList told;
  const Result<std::size_t> tokens = count_input(service, http, told);
  if (!tokens) return send_error(writer, api::responses_error_reply(tokens.error()));
  writer.send(200, api::kJsonContentType,
              api::to_line({{"object", "response.input_tokens"}, {"input_tokens", *tokens}}), told);
}

}  // namespace

void add_responses_routes(HttpServer& server, const Service& service) {
  server.shape_errors({.applies = speaks_responses,
                       .make = [](int status, std::string_view message, std::string_view /*id*/) -> HttpError {
                         // Every other path below it names a response.
                         api::ErrorReply reply =
                             status == 404 ? api::response_not_found() : api::responses_error(status, message);
                         return {reply.status, std::move(reply.body)};
                       }});
  const auto add = [&](std::string_view path, auto handler) {
    server.route("POST", std::string(path),
                 [&service, handler](HttpRequest& http, ResponseWriter& writer) { handler(service, http, writer); });
  };
  for (const std::string_view path : {kResponses, kShort}) {
    add(path, responses);
    add(std::string(path).append("/input_tokens"), input_tokens);
  }
}

}  // namespace kvkeep::server
