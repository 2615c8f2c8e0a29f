#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

#include "bench/sessions/dialect.h"
#include "bench/sessions/session.h"
#include "commands.h"
#include "server/http/http_client.h"

namespace kvkeep::cli {
namespace {

using Json = nlohmann::ordered_json;

// A request's body, and the API that it is of.
struct Warmed {
  WarmDialect dialect = WarmDialect::kChat;
  Json body;
};

std::string_view name_of(WarmDialect dialect) {
  switch (dialect) {
    case WarmDialect::kMessages: return "messages";
    case WarmDialect::kResponses: return "responses";
    case WarmDialect::kAny:
    case WarmDialect::kChat: break;
  }
  return "chat";
}

WarmDialect dialect_of(const bench::RecordedRequest& request) {
  switch (bench::dialect_of(request.method, request.path)) {
    case bench::Dialect::kOpenAiChat:
    case bench::Dialect::kOpenAiCompletion: return WarmDialect::kChat;
    case bench::Dialect::kAnthropic: return WarmDialect::kMessages;
    case bench::Dialect::kOpenAiResponses: return WarmDialect::kResponses;
    case bench::Dialect::kOther: break;
  }
  return WarmDialect::kAny;
}

// A body by itself; nullopt for anything else.
std::optional<Warmed> read_body(const std::string& text, WarmDialect wanted) {
  Json body = Json::parse(text, nullptr, false);
  const bool is_body = body.is_object() && !body.contains("path") &&
                       (body.contains("messages") || body.contains("prompt") || body.contains("input"));
  if (!is_body) return std::nullopt;
  if (wanted == WarmDialect::kAny && body.contains("input")) wanted = WarmDialect::kResponses;
  if (wanted == WarmDialect::kAny) wanted = body.contains("system") ? WarmDialect::kMessages : WarmDialect::kChat;
  return Warmed{wanted, std::move(body)};
}

bool has_tools(const bench::RecordedRequest& request) {
  const auto tools = request.body.find("tools");
  return tools != request.body.end() && tools->is_array() && !tools->empty();
}

// Agents send side requests, for titles and the like, before or between those with their long prompt, which has tools.
Result<Warmed> choose(bench::Session session, WarmDialect wanted) {
  std::erase_if(session.requests, [wanted](const bench::RecordedRequest& request) {
    const WarmDialect own = dialect_of(request);
    return !request.body.is_object() || own == WarmDialect::kAny || (wanted != WarmDialect::kAny && own != wanted);
  });
  if (session.requests.empty()) return not_found("the recording has no request of that kind");
  const auto with_tools = std::ranges::find_if(session.requests, has_tools);
  bench::RecordedRequest& chosen = with_tools == session.requests.end() ? session.requests.front() : *with_tools;
  return Warmed{dialect_of(chosen), std::move(chosen.body)};
}

Result<Warmed> read_request(const WarmOptions& options) {
  TRY_ASSIGN(const std::string text, read_recording(options.file));
  if (std::optional<Warmed> body = read_body(text, options.dialect)) return *std::move(body);
  TRY_ASSIGN(bench::Session session, bench::parse_session(options.file, text));
  return choose(std::move(session), options.dialect);
}

// Of a field that a foreign server leaves out, 0.
std::uint64_t count(const Json& reply, const char* name) {
  const auto found = reply.find(name);
  return found != reply.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

}  // namespace

Result<int> run_warm(const WarmOptions& options) {
  TRY_ASSIGN(const Warmed request, read_request(options));
  TRY_ASSIGN(server::HttpClient client, server::HttpClient::make(options.url));
  server::ClientRequest sent;
  sent.path = fmt::format("/cache/warm?dialect={}&keep_s={}", name_of(request.dialect), options.keep_s);
  sent.body = request.body.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (!options.api_key.empty()) sent.headers.emplace_back("Authorization", "Bearer " + options.api_key);
  TRY_ASSIGN(const auto answered, client.send(sent));
  const auto& [head, body] = answered;
  const Json reply = Json::parse(body, nullptr, false);
  if (head.status != 200 || !reply.is_object()) {
    return Error{ErrorKind::kIo, fmt::format("{} answered {}: {}", options.url, head.status, body.substr(0, 500))};
  }
  fmt::print("warmed {} tokens: {} were cached, {} prefilled\n", count(reply, "prompt_tokens"),
             count(reply, "cached_tokens"), count(reply, "prefilled_tokens"));
  return 0;
}

}  // namespace kvkeep::cli
