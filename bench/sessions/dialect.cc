#include "bench/sessions/dialect.h"

#include <algorithm>
#include <array>

#include "bench/sessions/json_fields.h"

namespace kvkeep::bench {
namespace {

struct Route {
  std::string_view end;  // the end of a path
  std::string_view path;
  Dialect dialect;
};
// "/chat/completions" comes before "/completions". Only the former is unmistakable without /v1: other APIs have a
// /completions or /messages of their own.
constexpr std::array kRoutes = {
    Route{"/chat/completions", "/v1/chat/completions", Dialect::kOpenAiChat},
    Route{"/v1/completions", "/v1/completions", Dialect::kOpenAiCompletion},
    Route{"/v1/responses", "/v1/responses", Dialect::kOpenAiResponses},
    Route{"/v1/messages", "/v1/messages", Dialect::kAnthropic},
};

std::string_view without_query(std::string_view path) {
  path = path.substr(0, path.find_first_of("?#"));
  while (path.ends_with('/')) path.remove_suffix(1);
  return path;
}

bool is_post(std::string_view method) { return method == "POST" || method == "post"; }

const char* length_field(Dialect dialect, const Json& body) {
  if (dialect == Dialect::kOpenAiResponses) return "max_output_tokens";
  return body.contains("max_completion_tokens") ? "max_completion_tokens" : "max_tokens";
}

void cap_reply(Dialect dialect, std::uint32_t most, Json& body) {
  const char* name = length_field(dialect, body);
  const std::uint64_t asked = count_field(body, name).value_or(most);
  body[name] = std::min<std::uint64_t>(asked, most);
}

void set_streaming(Dialect dialect, bool stream, Json& body) {
  body["stream"] = stream;
  if (dialect != Dialect::kOpenAiChat && dialect != Dialect::kOpenAiCompletion) return;
  if (!stream) {
    body.erase("stream_options");  // refused without stream
  } else if (Json& options = body["stream_options"]; options.is_object()) {
    options["include_usage"] = true;
  } else {
    options = Json::object({{"include_usage", true}});
  }
}

}  // namespace

Dialect dialect_of(std::string_view method, std::string_view path) {
  if (!is_post(method)) return Dialect::kOther;
  const std::string_view bare = without_query(path);
  const auto route = std::ranges::find_if(kRoutes, [&](const Route& known) { return bare.ends_with(known.end); });
  return route == kRoutes.end() ? Dialect::kOther : route->dialect;
}

std::string path_on_server(Dialect dialect, std::string_view path) {
  const auto route = std::ranges::find(kRoutes, dialect, &Route::dialect);
  if (route == kRoutes.end()) return std::string(path);
  const std::size_t query = path.find('?');
  std::string out(route->path);
  return query == std::string_view::npos ? out : out.append(path.substr(query));
}

nlohmann::ordered_json adapt_request(Dialect dialect, const nlohmann::ordered_json& body, const AdaptOptions& options) {
  Json sent = body;
  if (dialect == Dialect::kOther || !sent.is_object()) return sent;
  if (!options.model.empty()) sent["model"] = options.model;
  if (options.reply_tokens) cap_reply(dialect, *options.reply_tokens, sent);
  set_streaming(dialect, options.stream, sent);
  return sent;
}

}  // namespace kvkeep::bench
