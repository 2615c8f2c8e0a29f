#include "server/routes/routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cache/cache.h"
#include "server/api/anthropic/reply.h"
#include "server/api/anthropic/request.h"
#include "server/api/cache_lookup.h"
#include "server/api/errors.h"
#include "server/api/native_completion.h"
#include "server/api/openai/chat.h"
#include "server/api/openai/completions.h"
#include "server/api/openai/reply.h"
#include "server/api/responses/reply.h"
#include "server/api/responses/request.h"
#include "server/api/template_switches.h"
#include "server/api/tokenize_routes.h"
#include "server/http/http_message.h"
#include "server/routes/generation.h"
#include "server/routes/prompt.h"
#include "server/routes/prompt_files.h"
#include "server/routes/sender.h"
#include "server/trace/trace_file.h"

namespace kvkeep::server {
namespace {

void send_json(ResponseWriter& writer, std::string body) { writer.send(200, api::kJsonContentType, std::move(body)); }

// Adds a route whose handler also gets the service.
template <typename Handler>
void add_route(HttpServer& server, const Service& service, const char* method, std::string path, Handler handler,
               RouteOptions options = {}) {
  server.route(
      method, std::move(path),
      [&service, handler](HttpRequest& http, ResponseWriter& writer) { handler(service, http, writer); }, options);
}

// Counts the tokens of a prompt, rendered and tokenized, without the model or the cache. Sets the header that names
// ignored fields.
Result<std::size_t> count_input(const Service& service, HttpRequest& http, api::Dialect dialect,
                                Result<api::CountRequest> parsed, HeaderList& told) {
  TRY_ASSIGN(api::CountRequest request, std::move(parsed));
  told = tell_of_unknown_fields(service, http, dialect, request.unknown_fields);
  const Tenant tenant = tenant_of(service, http, request.cache_salt, service.adapters->for_job());
  return count_prompt(service, http, request.model, std::move(request.prompt), tenant);
}

void send_input_tokens(ResponseWriter& writer, std::size_t tokens, const HeaderList& told) {
  writer.send(200, api::kJsonContentType, api::to_line({{"object", "response.input_tokens"}, {"input_tokens", tokens}}),
              told);
}

// Anthropic's API, for Claude Code and @anthropic-ai/sdk. (/v1/models serves both families of clients.)
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

void count_tokens(const Service& service, HttpRequest& http, ResponseWriter& writer) {
  HeaderList told;
  const Result<std::size_t> tokens =
      count_input(service, http, api::Dialect::kMessages,
                  api::parse_count_tokens(take_body(service, http), service.defaults), told);
  if (!tokens) return send_error(writer, api::anthropic_error_reply(tokens.error(), http.id));
  writer.send(200, api::kJsonContentType, api::to_line({{"input_tokens", *tokens}}), told);
}

// Errors for these paths, and for any request with an anthropic-version, have the API's shape, wherever they arise.
void add_anthropic_routes(HttpServer& server, const Service& service) {
  server.shape_errors({.applies = speaks_messages,
                       .make = [](int status, std::string_view message, std::string_view request_id) -> HttpError {
                         api::ErrorReply reply = api::anthropic_error(status, message, request_id);
                         return {reply.status, std::move(reply.body)};
                       }});
  add_route(server, service, "POST", std::string(kMessages), messages);
  add_route(server, service, "POST", std::string(kCountTokens), count_tokens);
  server.route("GET", "/api/hello",
               [](const HttpRequest&, ResponseWriter& writer) {
                 writer.send(200, api::kJsonContentType, api::to_line({{"message", "hello"}}));
               },
               {.is_public = true, .is_light = true});
}

// OpenAI's Responses API, for codex, @ai-sdk/openai and the openai libraries.
constexpr std::string_view kResponses = "/v1/responses";
constexpr std::string_view kShort = "/responses";

// Returns true if `head` asks for a path below one of the API's own.
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

void input_tokens(const Service& service, HttpRequest& http, ResponseWriter& writer) {
  HeaderList told;
  const Result<std::size_t> tokens =
      count_input(service, http, api::Dialect::kResponses,
                  api::parse_input_tokens(take_body(service, http), service.defaults), told);
  if (!tokens) return send_error(writer, api::responses_error_reply(tokens.error()));
  send_input_tokens(writer, *tokens, told);
}

void add_responses_routes(HttpServer& server, const Service& service) {
  server.shape_errors({.applies = speaks_responses,
                       .make = [](int status, std::string_view message, std::string_view /*id*/) -> HttpError {
                         // Every other path below it names a response.
                         api::ErrorReply reply =
                             status == 404 ? api::response_not_found() : api::responses_error(status, message);
                         return {reply.status, std::move(reply.body)};
                       }});
  for (const std::string_view path : {kResponses, kShort}) {
    add_route(server, service, "POST", std::string(path), responses);
    add_route(server, service, "POST", std::string(path).append("/input_tokens"), input_tokens);
  }
}

// POST /cache/lookup: how much would a prompt reuse if it came now? docs/trace.md describes it.
//
// Carries an answer from the engine thread to its client. The scheduler's sink owns it, and it owns the HTTP writer.
class LookupAnswer final : public InspectionSink, public std::enable_shared_from_this<LookupAnswer> {
 public:
  LookupAnswer(const Service& service, std::shared_ptr<ResponseWriter> writer, HeaderList told)
      : service_(service), writer_(std::move(writer)), told_(std::move(told)) {}

  void on_answer(Result<Inspection> answer) override {
    answer_.emplace(std::move(answer));
    writer_->post_work([self = shared_from_this()] { self->reply(); });
  }
  bool gone() const override { return writer_->client_gone(); }

 private:
  void reply() {
    if (!*answer_) return send_error(*writer_, api::error_reply(answer_->error()));
    const api::Json json = lookup_json(**answer_, *service_.vocabulary, service_.traced_parts.prompt);
    writer_->send(200, api::kJsonContentType, api::to_line(json), told_);
  }

  const Service& service_;
  const std::shared_ptr<ResponseWriter> writer_;
  const HeaderList told_;  // header that names ignored fields
  std::optional<Result<Inspection>> answer_;
};

struct AskedPrompt {
  InspectedPrompt prompt;
  bool index_only = false;
};

Result<AskedPrompt> prompt_of(const Service& service, HttpRequest& http, std::optional<api::ErrorReply>& too_long,
                              HeaderList& told) {
  TRY(check_parameters(http, {"dialect"}));
  TRY_ASSIGN(const api::PromptApi of, api::prompt_api_of(http.parameter("dialect")));
  TRY_ASSIGN(api::LookupRequest asked, api::parse_lookup(take_body(service, http), service.defaults, of));
  told = tell_of_unknown_fields(service, http, api::lookup_fields(of), asked.unknown_fields);
  const Tenant tenant = tenant_of(service, http, asked.cache_salt, service.adapters->for_job(asked.adapters));
  TRY_ASSIGN(Prompt prompt, read_prompt(service, asked.prompt, tenant, http.client_gone));
  if (prompt.tokens_min == 0) return invalid("the prompt is empty");
  if (prompt.tokens_min >= service.context_tokens) {
    too_long = api::context_exceeded_reply(prompt.tokens_min, prompt.is_counted, service.context_tokens);
  }
  const Position beginning = Position{} + chat::beginning_size(prompt.ids, service.turn_openings);
  return AskedPrompt{{std::move(prompt.ids), asked.cache_prompt, tenant, beginning}, asked.index_only};
}

// On this thread: routers ask about every request, and the engine thread may be within a long call.
void reply_from_index(const Service& service, const InspectedPrompt& asked, HeaderList told, ResponseWriter& writer) {
  const cache::StoredPrefix found =
      asked.cache_prompt ? service.cache->stored(asked.tokens, asked.tenant) : cache::StoredPrefix{};
  writer.send(200, api::kJsonContentType, api::to_line(stored_json(found, asked.tokens.size())), told);
}

// Returns when the answer is sent, the client left or the server stops.
void cache_lookup(const Service& service, HttpRequest& http, ResponseWriter& writer) {
  if (!service.endpoints.cache) return send_error(writer, api::error_reply(no_cache_api()));
  std::optional<api::ErrorReply> too_long;
  HeaderList told;
  Result<AskedPrompt> asked = prompt_of(service, http, too_long, told);
  if (too_long) return send_error(writer, *too_long);
  if (!asked) return send_error(writer, api::error_reply(asked.error()));
  if (asked->index_only) return reply_from_index(service, asked->prompt, std::move(told), writer);
  const auto answer = std::make_shared<LookupAnswer>(service, writer.keep(), std::move(told));
  if (const Status taken = service.scheduler->inspect(std::move(asked->prompt), answer); !taken) {
    send_error(writer, api::error_reply(taken.error()));
  }
}

// OpenAI's chat and completions, and the tokenizer's routes.
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

Result<api::CountRequest> counted_chat(std::string body, const api::RequestDefaults& defaults) {
  TRY_ASSIGN(api::GenerationRequest request, api::parse_chat(std::move(body), defaults));
  return api::CountRequest{std::get<chat::RenderInput>(std::move(request.prompt)), std::move(request.model),
                           std::move(request.cache_salt), std::move(request.unknown_fields)};
}

void chat_input_tokens(const Service& service, HttpRequest& http, ResponseWriter& writer) {
  HeaderList told;
  const Result<std::size_t> tokens =
      count_input(service, http, api::Dialect::kChat, counted_chat(take_body(service, http), service.defaults), told);
  if (!tokens) return send_error(writer, api::error_reply(tokens.error()));
  send_input_tokens(writer, *tokens, told);
}

std::string text_of_part(const Service& service, const api::MixedPrompt::value_type& part) {
  if (std::holds_alternative<chat::MediaFile>(part)) return "[media]";
  if (const auto* text = std::get_if<std::string>(&part)) return *text;
  return service.vocabulary->text_of(std::get<std::vector<TokenId>>(part), /*with_special=*/true);
}

// llama-server's way to tell a model that thinks for too long to answer now.
void control_chat(const Service& service, HttpRequest& http, ResponseWriter& writer) {
  const Result<std::string> id = api::parse_chat_control(take_body(service, http));
  if (!id) return send_error(writer, api::error_reply(id.error()));
  send_json(writer, api::chat_control_reply(service.open_thoughts->end(*id, key_of(service, http))));
}

// Tokens that cannot come under `ignore_eos`.
std::vector<TokenId> end_tokens(const Vocabulary& vocabulary) {
  std::vector<TokenId> ends;
  for (const SpecialToken& token : vocabulary.special_tokens()) {
    if (vocabulary.is_end_of_generation(token.id)) ends.push_back(token.id);
  }
  return ends;
}

std::string prompt_text(const Service& service, const api::PromptSource& prompt) {
  if (const auto* text = std::get_if<std::string>(&prompt)) return *text;
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&prompt)) return text_of_part(service, *ids);
  if (const auto* fill = std::get_if<api::FillIn>(&prompt)) return fill->prefix + fill->typed;
  std::string text;
  for (const auto& part : std::get<api::MixedPrompt>(prompt)) text += text_of_part(service, part);
  return text;
}

// The prompts of a completion, which replies may repeat.
std::vector<std::string> prompt_texts(const Service& service, const api::GenerationRequest& request) {
  std::vector<std::string> texts{prompt_text(service, request.prompt)};
  for (const api::PromptSource& prompt : request.more_prompts) texts.push_back(prompt_text(service, prompt));
  return texts;
}

void completions(const Service& service, HttpRequest& http, ResponseWriter& writer) {
  Result<api::GenerationRequest> request = api::parse_completion(take_body(service, http), service.defaults);
  if (!request) return send_error(writer, api::error_reply(request.error()));
  const api::ReplyHeader header = reply_header(service, "cmpl-");
  std::vector<std::string> echoed;
  if (request->echo) echoed = prompt_texts(service, *request);
  auto reply = std::make_unique<api::CompletionReplyWriter>(header, *request, std::move(echoed));
  generate(service,
           {"completion", header.id, api::Dialect::kCompletions, std::move(*request), http, writer, std::move(reply)});
}

// The prompts with the BOS that the vocabulary puts before a text.
std::vector<std::string> whole_prompts(const Service& service, const api::GenerationRequest& request) {
  std::vector<std::string> texts = prompt_texts(service, request);
  const Vocabulary& vocabulary = *service.vocabulary;
  if (!vocabulary.add_bos() || !vocabulary.bos()) return texts;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const api::PromptSource& prompt = i == 0 ? request.prompt : request.more_prompts[i - 1];
    if (std::holds_alternative<std::string>(prompt)) texts[i].insert(0, vocabulary.piece(*vocabulary.bos(), true));
  }
  return texts;
}

void generate_native(const Service& service, HttpRequest& http, ResponseWriter& writer, api::Dialect dialect,
                     Result<api::GenerationRequest> request) {
  if (!request) return send_error(writer, api::error_reply(request.error()));
  request->return_tokens |= request->stream;  // each event of llama-server's has the ids of its text
  if (request->sampling.ignore_eos) request->withheld = end_tokens(*service.vocabulary);
  const api::ReplyHeader header = reply_header(service, "cmpl-");
  auto reply = std::make_unique<api::NativeCompletionWriter>(header, *request, whole_prompts(service, *request));
  generate(service, {"completion", header.id, dialect, std::move(*request), http, writer, std::move(reply)});
}

void native_completion(const Service& service, HttpRequest& http, ResponseWriter& writer) {
  generate_native(service, http, writer, api::Dialect::kCompletions,
                  api::parse_completion(take_body(service, http), service.defaults, api::CompletionShape::kNative));
}

void infill(const Service& service, HttpRequest& http, ResponseWriter& writer) {
  generate_native(service, http, writer, api::Dialect::kInfill,
                  api::parse_infill(take_body(service, http), service.defaults));
}

void apply_template(const Service& service, HttpRequest& http, ResponseWriter& writer) {
  send_result(service, http, writer, api::Dialect::kApplyTemplate,
              api::apply_template_reply(take_body(service, http), *service.vocabulary, *service.chat_template,
                                        *service.markers, service.stabilizers,
                                        os::local_time_s(service.clock->wall_ns()), service.defaults.template_kwargs,
                                        service.defaults.strict_fields, service.defaults.media_rules()));
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

// The names under which the model is served, the one that replies show first.
std::vector<std::string> names_of(const Service& service) {
  std::vector<std::string> names{service.card.id};
  for (const std::string& alias : service.aliases) {
    if (std::ranges::find(names, alias) == names.end()) names.push_back(alias);
  }
  return names;
}

// For people who open the base URL in a browser, and clients that look whether there is a server.
void greet(const Service&, const HttpRequest& http, ResponseWriter& writer) {
  writer.send(
      200, "text/plain; charset=utf-8",
      fmt::format("This is kvkeep, a server for language models. Its web page is turned off; programs talk to it.\n\n"
                  "Base URL for OpenAI's clients:    http://{0}/v1\n"
                  "Base URL for Anthropic's clients: http://{0}\n"
                  "The served model:                 http://{0}/v1/models\n",
                  http.header("host")));
}

void props(const Service& service, const HttpRequest&, ResponseWriter& writer) {
  const auto spelling = [&](std::optional<TokenId> id) {
    return id ? service.vocabulary->piece(*id, /*with_special=*/true) : std::string();
  };
  send_json(writer, api::props_reply({.model_name = service.model_name,
                                      .model_path = service.model_path,
                                      .chat_template = std::string(service.chat_template->source()),
                                      .chat_template_caps = api::template_caps(service.chat_template->traits()),
                                      .bos_token = spelling(service.vocabulary->bos()),
                                      .eos_token = spelling(service.vocabulary->eos()),
                                      .build = service.system_fingerprint,
                                      .context_tokens = service.context_tokens,
                                      .parallel = service.parallel,
                                      .file_type = service.card.file_type,
                                      .endpoints = service.endpoints},
                                     service.defaults));
}

void list_adapters(const Service& service, const HttpRequest&, ResponseWriter& writer) {
  send_json(writer, service.adapters->list());
}

void set_adapters(const Service& service, HttpRequest& http, ResponseWriter& writer) {
  const Status set = service.adapters->set(take_body(service, http));
  set ? send_json(writer, api::to_line({{"success", true}})) : send_error(writer, api::error_reply(set.error()));
}

void list_models(const Service& service, const HttpRequest&, ResponseWriter& writer) {
  send_json(writer, api::models_reply(service.card));
}

}  // namespace

// Clients that were set up for Ollama ask these.
void explain_other_apis(HttpServer& server) {
  const std::vector<std::pair<const char*, const char*>> same = {{"/api/chat", "/v1/chat/completions"},
                                                                 {"/api/generate", "/v1/completions"},
                                                                 {"/api/tags", "/v1/models"},
                                                                 {"/api/show", "/props"},
                                                                 {"/api/ps", "/cache"},
                                                                 {"/api/embed", "/v1/embeddings"},
                                                                 {"/api/embeddings", "/v1/embeddings"}};
  for (const auto& [path, ours] : same) {
    server.explain_path(path, fmt::format(": it is of Ollama's API; '{}' does the same", ours));
  }
  server.explain_path("/api/*", ": it is of Ollama's API; this server speaks OpenAI's below '/v1', and Anthropic's");
}

void add_routes(HttpServer& server, const Service& service) {
  explain_other_apis(server);
  server.on_leave([&service] { service.scheduler->wake(); });
  server.set_apart([&service](const HttpRequest& http) { return lane_of_files(service, http); });
  const auto route = [&](const char* method, const std::string& path, auto handler, RouteOptions options = {}) {
    add_route(server, service, method, path, handler, options);
  };
  if (!service.has_page) route("GET", "/", greet, {.is_public = true, .is_light = true});
  for (const char* path : {"/health", "/v1/health"}) {
    route("GET", path, show_health, {.is_public = true, .is_light = true});
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
  route("GET", "/lora-adapters", list_adapters, {.is_light = true});
  route("POST", "/lora-adapters", set_adapters);
  for (const char* path : {"/props", "/v1/props"}) route("GET", path, props, {.is_light = true});
  for (const std::string path : {"/v1/chat/completions", "/chat/completions"}) {
    route("POST", path, chat_completions);
    route("POST", path + "/input_tokens", chat_input_tokens);
  }
  route("POST", "/v1/chat/completions/control", control_chat);
  route("POST", "/v1/completions", completions);
  for (const char* path : {"/completion", "/completions"}) route("POST", path, native_completion);
  route("POST", "/infill", infill);
  route("POST", "/tokenize", tokenize);
  route("POST", "/detokenize", detokenize);
  route("POST", "/apply-template", apply_template);
  route("POST", "/cache/lookup", cache_lookup);
  add_cache_routes(server, service);
  add_embedding_routes(server, service);
  add_anthropic_routes(server, service);
  add_responses_routes(server, service);
  add_monitoring_routes(server, service);
  add_slot_routes(server, service);
  add_explain_routes(server, service);
  add_predict_routes(server, service);
}

}  // namespace kvkeep::server
