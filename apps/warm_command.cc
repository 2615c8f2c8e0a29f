#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "commands.h"
#include "named_files.h"
#include "output.h"
#include "server/http/http_client.h"

namespace kvkeep::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string_view name_of(WarmDialect dialect) {
  switch (dialect) {
    case WarmDialect::kMessages: return "messages";
    case WarmDialect::kResponses: return "responses";
    case WarmDialect::kAny:
    case WarmDialect::kChat: break;
  }
  return "chat";
}

// Returns the field; 0 if a foreign server leaves it out.
std::uint64_t count(const Json& reply, const char* name) {
  const auto found = reply.find(name);
  return found != reply.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

}  // namespace

Result<int> run_warm(const WarmOptions& options) {
  TRY_ASSIGN(const std::string recording, read_recording(options.file));
  TRY_ASSIGN(WarmRequest request, choose_warm_request(options.file, recording, options.dialect));
  TRY_ASSIGN(const std::string key, key_to_send(options.server));
  TRY_ASSIGN(server::HttpClient client, server::HttpClient::make(options.server.url));
  server::ClientRequest sent;
  sent.path = fmt::format("/cache/warm?dialect={}&keep_s={}", name_of(request.dialect), options.keep_s);
  sent.body = std::move(request.body);
  if (!key.empty()) sent.headers.emplace_back("Authorization", "Bearer " + key);
  TRY_ASSIGN(const auto answered, client.send(sent));
  const auto& [head, body] = answered;
  const Json reply = Json::parse(body, nullptr, false);
  if (head.status == 401) return key_refused(key);
  if (head.status != 200 || !reply.is_object()) {
    return Error{ErrorKind::kIo,
                 fmt::format("{} answered {}: {}", options.server.url, head.status, body.substr(0, 500))};
  }
  print(fmt::format("warmed {} tokens: {} were cached, {} prefilled\n", count(reply, "prompt_tokens"),
                    count(reply, "cached_tokens"), count(reply, "prefilled_tokens")));
  return 0;
}

}  // namespace kvkeep::cli
