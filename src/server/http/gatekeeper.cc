#include "server/http/gatekeeper.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/edit_distance.h"

namespace kvkeep::server {
namespace {

// Of a path, what may be wrong for a suggestion still to be one.
constexpr std::size_t kLettersPerMistake = 3;
constexpr std::size_t kLongestMistypedPath = 200;

Verdict refuse(int status, std::string_view message) {
  Verdict verdict;
  verdict.status = status;
  verdict.reason = message;
  return verdict;
}

std::size_t count_of(const HttpRequest& request, std::string_view name) {
  return static_cast<std::size_t>(std::ranges::count_if(
      request.headers, [&](const auto& field) { return equals_ignoring_case(field.first, name); }));
}

std::optional<std::uint64_t> number_in(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Behind a refusal, ready to be pasted.
std::string to_allow(std::string_view flag, std::string_view what) {
  return "; to allow it, start the server with " + std::string(flag) + " " + std::string(what);
}

// A preflight names the headers a page wants to send. Echoed only if they look like header names.
bool is_name_list(std::string_view text) {
  constexpr std::string_view kAllowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_, ";
  return text.find_first_not_of(kAllowed) == std::string_view::npos;
}

}  // namespace

bool announces_body(const HttpRequest& request) {
  if (!request.header("transfer-encoding").empty()) return true;
  const std::string_view length = request.header("content-length");
  return !length.empty() && length != "0";
}

std::uint64_t announced_bytes(const HttpRequest& request) {
  return number_in(request.header("content-length")).value_or(0);
}

Result<Gatekeeper> Gatekeeper::make(const HttpOptions& options) {
  TRY_ASSIGN(OriginGuard guard, OriginGuard::make(options.host, options.allowed_hosts, options.allowed_origins));
  return Gatekeeper(std::move(guard), options);
}

Gatekeeper::Gatekeeper(OriginGuard guard, const HttpOptions& options)
    : guard_(std::move(guard)), keys_(options.api_keys), body_bytes_max_(options.body_bytes_max) {}

Verdict Gatekeeper::judge(const HttpRequest& request) const {
  Verdict verdict = decide(request);
  if (!verdict.reason.empty()) {
    HttpError shaped = error(request, verdict.status, verdict.reason);
    verdict.status = shaped.status;
    verdict.body = std::move(shaped.body);
  }
  return verdict;
}

HttpError Gatekeeper::error(const HttpRequest& request, int status, std::string_view message) const {
  const auto shape = std::ranges::find_if(shapes_, [&](const ErrorShape& known) { return known.applies(request); });
  if (shape != shapes_.end()) return shape->make(status, message, request.id);
  return {status, error_body(status, message)};
}

Verdict Gatekeeper::decide(const HttpRequest& request) const {
  if (Verdict verdict = check_form(request); verdict.status != 0) return verdict;
  if (Verdict verdict = check_sender(request); verdict.status != 0) return verdict;
  Verdict verdict = request.method == "OPTIONS" ? answer_options(request) : find_route(request);
  if (verdict.route != nullptr) {
    if (Verdict refusal = check_body(request); refusal.status != 0) verdict = std::move(refusal);
  }
  // The origin passed: let its page read the reply, refusals included.
  if (const std::string_view origin = request.header("origin"); !origin.empty()) {
    verdict.headers.emplace_back("Access-Control-Allow-Origin", origin);
    verdict.headers.emplace_back("Vary", "Origin");
  }
  return verdict;
}

// What two parsers could read differently is refused: behind a proxy, that difference smuggles requests.
Verdict Gatekeeper::check_form(const HttpRequest& request) const {
  const std::size_t lengths = count_of(request, "content-length");
  if (lengths > 1 || (lengths == 1 && count_of(request, "transfer-encoding") > 0)) {
    return refuse(400, "The request states its body's length more than once");
  }
  if (lengths == 1 && !number_in(request.header("content-length")))
    return refuse(400, "Content-Length is not a number");
  if (count_of(request, "host") > 1) return refuse(400, "The request has more than one Host field");
  return {};
}

Verdict Gatekeeper::check_sender(const HttpRequest& request) const {
  const std::string_view host = request.header("host");
  if (host.empty()) return refuse(400, "The request has no Host field");
  if (!guard_.host_allowed(host)) {
    const std::string_view name = host_name(host);
    return refuse(403, "Host '" + std::string(host) + "' is not served here" +
                           (name.empty() ? "" : to_allow("--allowed-hosts", name)));
  }
  const std::string_view origin = request.header("origin");
  if (!guard_.origin_allowed(origin, host)) {
    const bool is_page = origin.find("://") != std::string_view::npos;  // files and sandboxed frames send "null"
    return refuse(403, "Origin '" + std::string(origin) + "' is not allowed" +
                           (is_page ? to_allow("--allowed-origins", origin) : ""));
  }
  return {};
}

Verdict Gatekeeper::find_route(const HttpRequest& request) const {
  const std::string_view method = request.method == "HEAD" ? std::string_view("GET") : request.method;
  const auto route = std::ranges::find_if(
      routes_, [&](const Route& entry) { return entry.method == method && entry.path == request.path; });
  const bool found = route != routes_.end();
  // Some clients ask HEAD / whether a server is there at all, before they send a key.
  if (!found && request.method == "HEAD" && request.path == "/") return {.status = 200};
  const std::string_view authorization = request.header("authorization");
  const std::string_view x_api_key = request.header("x-api-key");
  if (!(found && route->options.is_public) && !keys_.accepts(presented_key(authorization, x_api_key))) {
    return refuse(401, key_refusal(authorization, x_api_key));
  }
  if (found) return {.route = &*route};
  const std::string methods = allowed_methods(request.path);
  if (methods.empty()) {
    const std::string near = near_path(request.path);
    return refuse(
        404, "Path '" + request.path + "' is not served here" + (near.empty() ? "" : "; did you mean '" + near + "'?"));
  }
  Verdict verdict = refuse(405, "Path '" + request.path + "' takes " + methods + ", not " + request.method);
  verdict.headers.emplace_back("Allow", methods);
  return verdict;
}

// Of a mistyped path, one of another version, or with a base URL's part twice.
std::string Gatekeeper::near_path(std::string_view path) const {
  if (path.size() > kLongestMistypedPath) return {};
  std::vector<std::string> known;
  for (const Route& route : routes_) known.push_back(route.path);
  return nearest_within(path.size() / kLettersPerMistake, path, known);
}

Verdict Gatekeeper::check_body(const HttpRequest& request) const {
  const std::string_view length = request.header("content-length");
  if (!length.empty() && number_in(length).value_or(UINT64_MAX) > body_bytes_max_) {
    return refuse(413, "The request body of " + std::string(length) + " bytes is larger than " +
                           std::to_string(body_bytes_max_) + "; --max-body-mb sets the limit");
  }
  if (request.header("content-type").starts_with("multipart/")) return refuse(415, "Send the request body as JSON");
  return {};
}

std::string Gatekeeper::allowed_methods(std::string_view path) const {
  std::string methods;
  for (const Route& route : routes_) {
    if (route.path == path) methods += (methods.empty() ? "" : ", ") + route.method;
  }
  return methods;
}

Verdict Gatekeeper::answer_options(const HttpRequest& request) const {
  Verdict verdict{.status = 204};
  verdict.headers.emplace_back("Allow", "GET, HEAD, POST, DELETE, OPTIONS");
  if (request.header("origin").empty() || request.header("access-control-request-method").empty()) return verdict;
  verdict.headers.emplace_back("Access-Control-Allow-Methods", "GET, HEAD, POST, DELETE, OPTIONS");
  const std::string_view names = request.header("access-control-request-headers");
  if (!names.empty() && is_name_list(names)) verdict.headers.emplace_back("Access-Control-Allow-Headers", names);
  if (request.header("access-control-request-private-network") == "true") {
    verdict.headers.emplace_back("Access-Control-Allow-Private-Network", "true");
  }
  verdict.headers.emplace_back("Access-Control-Max-Age", "600");
  return verdict;
}

}  // namespace kvkeep::server
