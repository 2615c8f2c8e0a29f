#include "bench/run/server_client.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "bench/sessions/json_fields.h"
#include "bench/workloads/words.h"
#include "os/clock.h"
#include "os/threads.h"

namespace kvkeep::bench {
namespace {

constexpr int kTokenizeMs = 60'000;

std::string bytes_of(const Json& body) {
  if (body.is_null()) return "";
  return body.is_string() ? body.get<std::string>() : to_line(body);
}

Error unexpected(const server::ClientRequest& request, int status, std::string_view answer) {
  return unsupported(fmt::format("{} {}: status {}, {}", request.method, request.path, status, shortened(answer)));
}

}  // namespace

Json chat_message(const char* role, std::string_view text) { return {{"role", role}, {"content", text}}; }

std::string Exchange::failure() const {
  return broken.empty() ? fmt::format("status {}: {}", status, facts.error) : broken;
}

Result<std::unique_ptr<ServerClient>> ServerClient::make(const ServerTarget& target, Interrupt& interrupt) {
  TRY_ASSIGN(server::HttpClient http, server::HttpClient::make(target.base_url));
  return std::unique_ptr<ServerClient>(new ServerClient(std::move(http), target, interrupt));
}

ServerClient::ServerClient(server::HttpClient http, const ServerTarget& target, Interrupt& interrupt)
    : http_(std::move(http)), target_(target), guard_(interrupt, [this] { http_.stop(); }) {}

server::HeaderList ServerClient::own_headers() const {
  server::HeaderList headers;
  if (!target_.keeps_connection) headers.emplace_back("connection", "close");
  if (target_.api_key.empty()) return headers;
  headers.emplace_back("authorization", "Bearer " + target_.api_key);
  headers.emplace_back("x-api-key", target_.api_key);
  return headers;
}

Exchange ServerClient::exchange(Dialect dialect, server::ClientRequest request, const OnPiece& on_piece,
                                const OnProgress& on_progress) {
  os::Clock& clock = os::real_clock();
  Exchange made;
  made.sent = true;
  made.dialect = dialect;
  std::optional<ReplyReader> reader;
  const auto on_status = [&](int status) {
    made.status = status;
    reader.emplace(dialect, status);
  };
  std::size_t known_bytes = 0;
  std::uint64_t known_tokens = 0;
  const auto on_bytes = [&](std::string_view bytes) {
    const bool is_answer = reader->feed(bytes);
    if (const std::uint64_t tokens = reader->processed_tokens(); tokens != known_tokens) {
      known_tokens = tokens;
      if (on_progress) on_progress({clock.monotonic_ns(), tokens});
    }
    if (!is_answer) return true;
    const Piece piece{clock.monotonic_ns(), reader->answer_bytes()};
    if (made.ttft_ms != 0 && piece.answer_bytes == known_bytes) return true;  // a comment, or the stream's end
    known_bytes = piece.answer_bytes;
    if (made.ttft_ms == 0) made.ttft_ms = os::elapsed_ms(made.sent_ns, piece.ns);
    return !on_piece || on_piece(piece);
  };
  const std::int64_t cpu_ns = os::thread_cpu_ns();
  made.sent_ns = clock.monotonic_ns();
  const auto reply = http_.send(request, on_status, on_bytes);
  made.ended_ns = clock.monotonic_ns();
  made.own_cpu_ms = os::elapsed_ms(cpu_ns, os::thread_cpu_ns());
  if (!reply) made.broken = reply.error().message;
  if (reader) made.facts = reader->finish();
  return made;
}

Exchange ServerClient::send(const RecordedRequest& request, const Json& body) {
  const Dialect dialect = dialect_of(request.method, request.path);
  Json adapted = adapt_request(dialect, body, target_.adapt);
  server::HeaderList headers = own_headers();
  headers.insert(headers.end(), request.headers.begin(), request.headers.end());
  Exchange sent = exchange(dialect,
                           {.method = request.method,
                            .path = path_on_server(dialect, request.path),
                            .headers = std::move(headers),
                            .body = bytes_of(adapted),
                            .silence_ms = target_.silence_ms},
                           {});
  sent.body = std::move(adapted);
  return sent;
}

Exchange ServerClient::chat(const Json& messages, const ChatOptions& options) {
  Json body = {{"messages", messages}, {"temperature", 0}, {"max_tokens", options.reply_tokens}};
  if (options.choices > 1) body["n"] = options.choices;
  if (!options.cache_prompt) body["cache_prompt"] = false;
  if (options.whole_length) body["ignore_eos"] = true;
  if (options.on_progress) body["return_progress"] = true;
  return exchange(Dialect::kOpenAiChat,
                  {.path = "/v1/chat/completions",
                   .headers = own_headers(),
                   .body = to_line(adapt_request(Dialect::kOpenAiChat, body, {.model = {}, .reply_tokens = {}})),
                   .silence_ms = target_.silence_ms},
                  options.on_piece, options.on_progress);
}

Exchange ServerClient::chat(const Json& messages, std::uint32_t reply_tokens, const std::function<void()>& on_first) {
  bool is_first = true;
  const auto tell = [&](const Piece&) {
    if (std::exchange(is_first, false) && on_first) on_first();
    return true;
  };
  return chat(messages, ChatOptions{.reply_tokens = reply_tokens, .on_piece = tell});
}

Result<int> ServerClient::health(int silence_ms) {
  TRY_ASSIGN(
      const auto reply,
      http_.send({.method = "GET", .path = "/health", .headers = own_headers(), .body = {}, .silence_ms = silence_ms}));
  return reply.first.status;
}

Result<Json> ServerClient::ask(const server::ClientRequest& request) {
  TRY_ASSIGN(const auto reply, http_.send(request));
  const auto& [head, text] = reply;
  Result<Json> json = parse_json(text);
  if (head.status != 200 || !json || !json->is_object()) return unexpected(request, head.status, text);
  return json;
}

Result<Json> ServerClient::get(const char* path) {
  return ask({.method = "GET", .path = path, .headers = own_headers(), .body = {}, .silence_ms = kProbeMs});
}

Result<Json> ServerClient::post(const char* path, const Json& body) {
  return ask({.path = path, .headers = own_headers(), .body = to_line(body), .silence_ms = kTokenizeMs});
}

Result<std::vector<TokenId>> ServerClient::tokenize(std::string_view text) { return token_ids(text, false, false); }

Result<std::vector<TokenId>> ServerClient::prompt_ids(Dialect dialect, const Json& body) {
  if (dialect == Dialect::kOpenAiCompletion) {
    const Json* prompt = field(body, "prompt");
    if (prompt != nullptr && prompt->is_string()) return tokenize_prompt(prompt->get_ref<const std::string&>(), true);
  }
  if (dialect != Dialect::kOpenAiChat) return unsupported("no prompt to be seen");
  TRY_ASSIGN(const std::string prompt, printed_prompt(body));
  return tokenize_prompt(prompt, true);
}

Result<std::string> ServerClient::printed_prompt(const Json& body) {
  TRY_ASSIGN(const Json reply, post("/apply-template", body));
  std::string prompt = text_field(reply, "prompt");
  if (prompt.empty()) return unsupported("POST /apply-template answers without \"prompt\"");
  return prompt;
}

Result<std::string> ServerClient::prompt_text(const Json& messages) { return printed_prompt({{"messages", messages}}); }

Result<std::vector<TokenId>> ServerClient::tokenize_prompt(std::string_view text, bool begins) {
  return token_ids(text, begins, true);
}

Result<std::vector<TokenId>> ServerClient::chat_ids(const Json& messages) {
  return prompt_ids(Dialect::kOpenAiChat, {{"messages", messages}});
}

Result<std::vector<TokenId>> ServerClient::token_ids(std::string_view text, bool begins, bool markers) {
  TRY_ASSIGN(const Json reply,
             post("/tokenize", {{"content", text}, {"add_special", begins}, {"parse_special", markers}}));
  const Json* tokens = field(reply, "tokens");
  if (tokens == nullptr || !tokens->is_array()) return unsupported("POST /tokenize answers without \"tokens\"");
  std::vector<TokenId> ids;
  ids.reserve(tokens->size());
  for (const Json& token : *tokens) {
    if (!token.is_number_integer()) return unsupported("POST /tokenize answers other things than ids");
    ids.push_back(token.get<TokenId>());
  }
  return ids;
}

Result<std::size_t> ServerClient::count_tokens(const Json& messages) {
  TRY_ASSIGN(const Json reply, post("/v1/messages/count_tokens", {{"model", "any"}, {"messages", messages}}));
  const Json* count = field(reply, "input_tokens");
  if (count == nullptr || !count->is_number_unsigned()) return unsupported("count_tokens answers no number");
  return count->get<std::size_t>();
}

Result<std::string> ServerClient::text(const std::string& label, std::size_t tokens) {
  return text_of_tokens(label, tokens, [this](std::string_view words) -> Result<std::size_t> {
    TRY_ASSIGN(const std::vector<TokenId> ids, tokenize(words));
    return ids.size();
  });
}

std::string ServerClient::model_name() {
  const auto models = get("/v1/models");
  const Json* data = models ? field(*models, "data") : nullptr;
  return data != nullptr && data->is_array() && !data->empty() ? text_field(data->front(), "id") : "";
}

std::string ServerClient::server_version() {
  const auto props = get("/props");
  return props ? text_field(*props, "build_info") : "";
}

std::string ServerClient::server_field() {
  const auto reply =
      http_.send({.method = "GET", .path = "/health", .headers = own_headers(), .body = {}, .silence_ms = kProbeMs});
  if (!reply) return "";
  for (const auto& [name, value] : reply->first.headers) {
    if (server::equals_ignoring_case(name, "Server")) return value;
  }
  return "";
}

}  // namespace kvkeep::bench
