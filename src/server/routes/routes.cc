#include "server/routes/routes.h"

#include <algorithm>
#include <string>
#include <vector>

#include "server/api/errors.h"
#include "server/api/openai/chat.h"
#include "server/api/openai/chat_reply.h"
#include "server/api/openai/completions.h"
#include "server/api/openai/completions_reply.h"
#include "server/api/tokenize_routes.h"
#include "server/routes/anthropic.h"
#include "server/routes/cache_lookup.h"
#include "server/routes/generation.h"
#include "server/routes/responses.h"
#include "server/routes/unknown_fields.h"

namespace kvkeep::server {

namespace {

void send_json(ResponseWriter& writer, std::string body) { writer.send(200, api::kJsonContentType, std::move(body)); }

void send_result(const Service& service, const HttpRequest& http, ResponseWriter& writer, api::Dialect dialect,
                 Result<api::NativeReply> reply) {
  if (!reply) return send_error(writer, api::error_reply(reply.error()));
  writer.send(200, api::kJsonContentType, std::move(reply->body),
              tell_of_unknown_fields(service, http, dialect, reply->unknown_fields));
}

void chat_completions(const Service& service, HttpRequest& http, ResponseWriter& writer) {
  Result<api::GenerationRequest> request = api::parse_chat(take_body(service, http), service.defaults);
  if (!request) return send_error(writer, api::error_reply(request.error()));
  const api::ReplyHeader header = reply_header(service, "chatcmpl-");
  auto reply = std::make_unique<api::ChatReplyWriter>(header, *request);
  generate(service, {"chat", header.id, api::Dialect::kChat, std::move(*request), http, writer, std::move(reply)});
}

void completions(const Service& service, HttpRequest& http, ResponseWriter& writer) {
  Result<api::GenerationRequest> request = api::parse_completion(take_body(service, http), service.defaults);
  if (!request) return send_error(writer, api::error_reply(request.error()));
  const api::ReplyHeader header = reply_header(service, "cmpl-");
  auto reply = std::make_unique<api::CompletionReplyWriter>(header, *request);
  generate(service,
           {"completion", header.id, api::Dialect::kCompletions, std::move(*request), http, writer, std::move(reply)});
}

void apply_template(const Service& service, HttpRequest& http, ResponseWriter& writer) {
  send_result(
      service, http, writer, api::Dialect::kApplyTemplate,
      api::apply_template_reply(take_body(service, http), *service.vocabulary, *service.chat_template, *service.markers,
                                service.stabilizers, os::local_time_s(service.clock->wall_ns()),
                                service.defaults.template_kwargs, service.defaults.strict_fields));
}

void tokenize(const Service& service, HttpRequest& http, ResponseWriter& writer) {
  send_result(service, http, writer, api::Dialect::kTokenize,
              api::tokenize_reply(take_body(service, http), *service.vocabulary, *service.long_text, http.client_gone,
                                  service.defaults.strict_fields));
}

void detokenize(const Service& service, HttpRequest& http, ResponseWriter& writer) {
  send_result(service, http, writer, api::Dialect::kDetokenize,
              api::detokenize_reply(take_body(service, http), *service.vocabulary, service.defaults.strict_fields));
}

// The names under which the model is served; replies show the first.
std::vector<std::string> names_of(const Service& service) {
  std::vector<std::string> names{service.card.id};
  for (const std::string& alias : service.aliases) {
    if (std::ranges::find(names, alias) == names.end()) names.push_back(alias);
  }
  return names;
}

void list_models(const Service& service, const HttpRequest&, ResponseWriter& writer) {
  std::vector<std::string> more = names_of(service);
  more.erase(more.begin());
  send_json(writer, api::models_reply(service.card, more));
}

}  // namespace

void add_routes(HttpServer& server, const Service& service) {
  const auto route = [&](const char* method, const std::string& path, auto handler, RouteOptions options = {}) {
    server.route(
        method, path,
        [&service, handler](HttpRequest& http, ResponseWriter& writer) { handler(service, http, writer); }, options);
  };
  for (const char* path : {"/health", "/v1/health"}) {
    route("GET", path,
          [](const Service&, const HttpRequest&, ResponseWriter& writer) { send_json(writer, api::health_reply()); },
          {.is_public = true, .is_light = true});
  }
  for (const char* path : {"/v1/models", "/models"}) {
    route("GET", path, list_models, {.is_public = true, .is_light = true});
  }
  for (const std::string& name : names_of(service)) {
    route("GET", "/v1/models/" + name,
          [name](const Service& shared, const HttpRequest&, ResponseWriter& writer) {
            api::ModelCard card = shared.card;
            card.id = name;
            send_json(writer, api::model_reply(card));
          },
          {.is_public = true, .is_light = true});
  }
  for (const char* path : {"/v1/chat/completions", "/chat/completions"}) route("POST", path, chat_completions);
  for (const char* path : {"/v1/completions", "/completions"}) route("POST", path, completions);
  route("POST", "/tokenize", tokenize);
  route("POST", "/detokenize", detokenize);
  route("POST", "/apply-template", apply_template);
  route("POST", "/cache/lookup", cache_lookup);
  add_anthropic_routes(server, service);
  add_responses_routes(server, service);
}

}  // namespace kvkeep::server
