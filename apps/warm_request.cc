#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "bench/sessions/dialect.h"
#include "bench/sessions/session.h"
#include "warm.h"

namespace kvkeep::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const Json& body) { return body.dump(-1, ' ', false, Json::error_handler_t::replace); }

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

// As web/page/model.js has it.
bool is_of_messages(const Json& body) {
  const auto tools = body.find("tools");
  return body.contains("system") ||
         (tools != body.end() && tools->is_array() && std::ranges::any_of(*tools, [](const Json& tool) {
            return tool.is_object() && tool.contains("input_schema");
          }));
}

// A body by itself; nullopt for anything else.
std::optional<WarmRequest> read_body(std::string_view text, WarmDialect wanted) {
  const Json body = Json::parse(text, nullptr, false);
  const bool is_body = body.is_object() && !body.contains("path") &&
                       (body.contains("messages") || body.contains("prompt") || body.contains("input"));
  if (!is_body) return std::nullopt;
  if (wanted == WarmDialect::kAny && body.contains("input")) wanted = WarmDialect::kResponses;
  if (wanted == WarmDialect::kAny) wanted = is_of_messages(body) ? WarmDialect::kMessages : WarmDialect::kChat;
  return WarmRequest{wanted, text_of(body)};
}

bool has_tools(const bench::RecordedRequest& request) {
  const auto tools = request.body.find("tools");
  return tools != request.body.end() && tools->is_array() && !tools->empty();
}

}  // namespace

Result<WarmRequest> choose_warm_request(const std::string& file_name, std::string_view text, WarmDialect wanted) {
  if (std::optional<WarmRequest> body = read_body(text, wanted)) return *std::move(body);
  TRY_ASSIGN(bench::Session session, bench::parse_session(file_name, text));
  std::erase_if(session.requests, [wanted](const bench::RecordedRequest& request) {
    const WarmDialect own = dialect_of(request);
    return !request.body.is_object() || own == WarmDialect::kAny || (wanted != WarmDialect::kAny && own != wanted);
  });
  if (session.requests.empty()) return not_found("the recording has no request of that kind");
  const auto with_tools = std::ranges::find_if(session.requests, has_tools);
  const bench::RecordedRequest& chosen = with_tools == session.requests.end() ? session.requests.front() : *with_tools;
  return WarmRequest{dialect_of(chosen), text_of(chosen.body)};
}

}  // namespace kvkeep::cli
