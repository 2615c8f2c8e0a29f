#include "bench/run/replay_client.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "bench/json_fields.h"
#include "os/clock.h"

namespace kvkeep::bench {
namespace {

constexpr int kProbeMs = 10'000;
constexpr int kTokenizeMs = 60'000;

std::string bytes_of(const Json& body) {
  if (body.is_null()) return "";
  return body.is_string() ? body.get<std::string>() : to_line(body);
}

}  // namespace

Result<std::unique_ptr<ReplayClient>> ReplayClient::make(const ReplayTarget& target, Interrupt& interrupt) {
  TRY_ASSIGN(server::HttpClient http, server::HttpClient::make(target.base_url));
  return std::unique_ptr<ReplayClient>(new ReplayClient(std::move(http), target, interrupt));
}

ReplayClient::ReplayClient(server::HttpClient http, const ReplayTarget& target, Interrupt& interrupt)
    : http_(std::move(http)), target_(target), guard_(interrupt, [this] { http_.stop(); }) {}

// A connection per request: servers close idle ones when they like, and a request sent just then would be lost.
server::HeaderList ReplayClient::own_headers() const {
  server::HeaderList headers{{"connection", "close"}};
  if (target_.api_key.empty()) return headers;
  headers.emplace_back("authorization", "Bearer " + target_.api_key);
  headers.emplace_back("x-api-key", target_.api_key);
  return headers;
}

Exchange ReplayClient::send(const RecordedRequest& request, const Json& body) {
  const Dialect dialect = dialect_of(request.method, request.path);
  Json adapted = adapt_request(dialect, body, target_.adapt);
  server::ClientRequest http{.method = request.method,
                             .path = path_on_server(dialect, request.path),
                             .headers = own_headers(),
                             .body = bytes_of(adapted),
                             .silence_ms = target_.silence_ms};
  http.headers.insert(http.headers.end(), request.headers.begin(), request.headers.end());

  os::Clock& clock = os::real_clock();
  Exchange exchange;
  std::optional<ReplyReader> reader;
  const auto on_status = [&](int status) {
    exchange.status = status;
    reader.emplace(dialect, status);
  };
  const auto on_bytes = [&](std::string_view bytes) {
    const bool answers = reader->feed(bytes);
    if (answers && exchange.ttft_ms == 0) exchange.ttft_ms = os::elapsed_ms(exchange.sent_ns, clock.monotonic_ns());
    return true;
  };
  exchange.sent = true;
  exchange.sent_ns = clock.monotonic_ns();
  const auto reply = http_.send(http, on_status, on_bytes);
  exchange.ended_ns = clock.monotonic_ns();
  if (!reply) exchange.broken = reply.error().message;
  if (reader) exchange.facts = reader->finish();
  exchange.dialect = dialect;
  exchange.body = std::move(adapted);
  return exchange;
}

Status ReplayClient::reach() {
  const auto reply =
      http_.send({.method = "GET", .path = "/health", .headers = own_headers(), .body = "", .silence_ms = kProbeMs});
  if (!reply) return reply.error();
  return {};
}

Result<Json> ReplayClient::ask(const server::ClientRequest& request) {
  TRY_ASSIGN(const auto reply, http_.send(request));
  const auto& [head, text] = reply;
  if (head.status != 200) return unsupported(fmt::format("{} answers {}", request.path, head.status));
  return parse_json(text);
}

Result<Json> ReplayClient::post(const char* path, const Json& body) {
  return ask(
      {.method = "POST", .path = path, .headers = own_headers(), .body = to_line(body), .silence_ms = kTokenizeMs});
}

Result<std::vector<TokenId>> ReplayClient::tokenize(std::string_view text) {
  return token_ids({{"content", text}, {"add_special", false}});
}

Result<std::vector<TokenId>> ReplayClient::prompt_ids(Dialect dialect, const Json& body) {
  Json prompt;
  if (dialect == Dialect::kOpenAiChat) {
    TRY_ASSIGN(const Json reply, post("/apply-template", body));
    prompt = text_field(reply, "prompt");
  } else if (const Json* field = bench::field(body, "prompt");
             dialect == Dialect::kOpenAiCompletion && field != nullptr) {
    prompt = *field;
  }
  if (!prompt.is_string() || prompt.empty()) return unsupported("no prompt to be seen");
  return token_ids({{"content", prompt}, {"add_special", true}, {"parse_special", true}});
}

Result<std::vector<TokenId>> ReplayClient::token_ids(const Json& body) {
  TRY_ASSIGN(const Json reply, post("/tokenize", body));
  const Json* tokens = field(reply, "tokens");
  if (tokens == nullptr || !tokens->is_array()) return unsupported("/tokenize answers without \"tokens\"");
  std::vector<TokenId> ids;
  ids.reserve(tokens->size());
  for (const Json& token : *tokens) {
    if (!token.is_number_integer()) return unsupported("/tokenize answers other things than ids");
    ids.push_back(token.get<TokenId>());
  }
  return ids;
}

std::string ReplayClient::model_name() {
  const auto reply =
      ask({.method = "GET", .path = "/v1/models", .headers = own_headers(), .body = "", .silence_ms = kProbeMs});
  const Json* data = reply ? field(*reply, "data") : nullptr;
  return data != nullptr && data->is_array() && !data->empty() ? text_field(data->front(), "id") : "";
}

std::string ReplayClient::server_version() {
  const auto props =
      ask({.method = "GET", .path = "/props", .headers = own_headers(), .body = "", .silence_ms = kProbeMs});
  return props ? text_field(*props, "build_info") : "";
}

std::string ReplayClient::server_field() {
  const auto reply =
      http_.send({.method = "GET", .path = "/health", .headers = own_headers(), .body = "", .silence_ms = kProbeMs});
  if (!reply) return "";
  for (const auto& [name, value] : reply->first.headers) {
    if (server::equals_ignoring_case(name, "Server")) return value;
  }
  return "";
}

}  // namespace kvkeep::bench
