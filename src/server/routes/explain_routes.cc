// GET /cache/explain, /cache/explain/ID and /cache/offenders: why requests reused no more. docs/explain.md describes
// them.
//
// Texts are shown to the client that sent them only. Where the server asks for keys, a client sees the requests of its
// own key; without keys everyone sees all requests, and their texts only with --explain-text. Requests with a
// `cache_salt` are shown to those who name the salt. Offenders likewise: only where nobody else can ask, or everyone
// may see everything, they are those of all clients.

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/tenant_scope.h"
#include "server/api/errors.h"
#include "server/api/json_body.h"
#include "server/http/http_message.h"
#include "server/routes/generation.h"
#include "server/routes/routes.h"
#include "server/routes/sender.h"
#include "server/trace/explanations.h"

namespace kvkeep::server {
namespace {

constexpr std::size_t kShownByDefault = 16;
constexpr std::size_t kMostShown = 1024;

Explanations::Wanted shown_to(const Service& service, const HttpRequest& http) {
  const Tenant plain = tenant_of(service, http, salt_of_query(http));
  const std::uint64_t owner = owner_of(service, http, plain);
  return [=, has_keys = service.has_keys](const ExplainedRequest& request) {
    return has_keys ? request.owner == owner : TenantScope::with_forms(plain).has(request.tenant);
  };
}

BreakTexts texts_for(const Service& service) {
  if (service.has_keys) return BreakTexts::kOwn;
  return service.explain_text ? BreakTexts::kAll : BreakTexts::kNone;
}

std::optional<std::size_t> count_of(std::string_view text) {
  if (text.empty()) return kShownByDefault;
  std::size_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && count >= 1 && count <= kMostShown ? std::optional(count) : std::nullopt;
}

void explain_last(const Service& service, const HttpRequest& http, ResponseWriter& writer) {
  const auto count = count_of(http.parameter("last"));
  if (!count) return send_error(writer, api::error_reply(invalid("'last' must be a number from 1 to 1024")));
  api::Json list = api::Json::array();
  for (const ExplainedRequest& request : service.explanations->last(*count, shown_to(service, http))) {
    list.push_back(explained_json(request, texts_for(service)));
  }
  writer.send(200, api::kJsonContentType, api::to_line({{"requests", std::move(list)}}));
}

void explain_one(const Service& service, const HttpRequest& http, ResponseWriter& writer) {
  const std::string_view id = std::string_view(http.path).substr(http.path.rfind('/') + 1);
  const auto found = service.explanations->find(id, shown_to(service, http));
  if (!found) {
    return send_error(writer, api::error_reply(not_found("no such request: its id is wrong, it has not ended yet, "
                                                         "it was refused, it came too long ago, or it is another "
                                                         "client's")));
  }
  writer.send(200, api::kJsonContentType, api::to_line(explained_json(*found, texts_for(service))));
}

// The sums over all clients, which outlive the server, do not tell keys apart, and with its first key a server may find
// lines that were sent when it had none. The name of a program says who works here: it is no other key's business.
void show_offenders(const Service& service, const HttpRequest& http, ResponseWriter& writer) {
  const bool of_all = service.keys <= 1 && !is_salted(tenant_of(service, http, salt_of_query(http)));
  const bool with_lines = service.explain_text && !service.has_keys;
  const api::Json shown =
      of_all ? offenders_json(service.explanations->offenders(), with_lines)
             : offenders_json(service.explanations->offenders(shown_to(service, http)), with_lines || service.has_keys);
  writer.send(200, api::kJsonContentType, api::to_line(shown));
}

using Explain = void (*)(const Service&, const HttpRequest&, ResponseWriter&);

void add(HttpServer& server, const Service& service, const char* path, std::vector<std::string> parameters,
         Explain explain) {
  server.route("GET", path,
               [&service, parameters = std::move(parameters), explain](HttpRequest& http, ResponseWriter& writer) {
                 if (!service.endpoints.cache) return send_error(writer, api::error_reply(no_cache_api()));
                 if (service.explanations == nullptr) {
                   return send_error(writer, api::error_reply(unsupported("this server explains no requests")));
                 }
                 if (const Status known = check_parameters(http, parameters); !known) {
                   return send_error(writer, api::error_reply(known.error()));
                 }
                 explain(service, http, writer);
               });
}

}  // namespace

void add_explain_routes(HttpServer& server, const Service& service) {
  add(server, service, "/cache/explain", {"last", "cache_salt"}, explain_last);
  add(server, service, "/cache/explain/*", {"cache_salt"}, explain_one);
  add(server, service, "/cache/offenders", {"cache_salt"}, show_offenders);
}

}  // namespace kvkeep::server
