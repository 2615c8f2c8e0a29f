#include "server/http/gatekeeper.h"

#include <algorithm>

#include "base/edit_distance.h"

namespace kvkeep::server {
namespace {

// A suggested path may differ in one letter of this many.
constexpr std::size_t kLettersPerMistake = 3;
constexpr std::size_t kLongestMistypedPath = 200;
// A refusal names at most so many paths.
constexpr std::size_t kMostNamedPaths = 8;

Verdict deny(int status, std::string_view message) {
  Verdict verdict;
  verdict.status = status;
  verdict.reason = message;
  return verdict;
}

// Appended to a refusal, ready to be pasted.
std::string to_allow(std::string_view flag, std::string_view what) {
  return "; to allow it, start the server with " + std::string(flag) + " " + std::string(what);
}

// A preflight names the headers a page wants to send. Echoed only if they look like header names.
bool is_name_list(std::string_view text) {
  constexpr std::string_view kAllowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_, ";
  return text.find_first_not_of(kAllowed) == std::string_view::npos;
}

bool is_pattern(std::string_view route) { return route.ends_with("/*"); }

bool is_served_by(std::string_view route, std::string_view path) {
  if (!is_pattern(route)) return route == path;
  const std::string_view stem = route.substr(0, route.size() - 1);
  return path.size() > stem.size() && path.starts_with(stem) && path.find('/', stem.size()) == std::string_view::npos;
}

}  // namespace

Result<Gatekeeper> Gatekeeper::make(const HttpOptions& options) {
  std::vector<std::string> bound = options.hosts;
  for (const os::PassedSocket& socket : options.passed) bound.push_back(socket.host);
  TRY_ASSIGN(OriginGuard guard, OriginGuard::make(std::move(bound), options.allowed_hosts, options.allowed_origins));
  return Gatekeeper(std::move(guard), options);
}

Gatekeeper::Gatekeeper(OriginGuard guard, const HttpOptions& options)
    : guard_(std::move(guard)), keys_(options.api_keys), body_bytes_max_(options.body_bytes_max) {}

Verdict Gatekeeper::judge(const HttpRequest& request, std::uint64_t body_bytes) const {
  Verdict verdict = decide(request, body_bytes);
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

Verdict Gatekeeper::decide(const HttpRequest& request, std::uint64_t body_bytes) const {
  if (Verdict verdict = check_sender(request); verdict.status != 0) return verdict;
  Verdict verdict = request.method == "OPTIONS" ? answer_options(request) : find_route(request);
  if (verdict.route != nullptr) {
    if (Verdict refusal = check_body(request, body_bytes); refusal.status != 0) verdict = std::move(refusal);
  }
  // The origin passed: let its page read the reply, even a refusal.
  if (const std::string_view origin = request.header("origin"); !origin.empty()) {
    verdict.headers.emplace_back("Access-Control-Allow-Origin", origin);
    verdict.headers.emplace_back("Vary", "Origin");
  }
  return verdict;
}

Verdict Gatekeeper::check_sender(const HttpRequest& request) const {
  const std::string_view host = request.header("host");
  // No name can be pointed at a Unix socket, and its clients send any Host, or none. A browser's page, which has an
  // origin, gets there only through a proxy, whose name must be known.
  const bool is_named = !request.over_unix_socket() || !request.header("origin").empty();
  if (is_named && host.empty()) return deny(400, "The request has no Host field");
  if (is_named && !guard_.host_allowed(host)) {
    const std::string_view name = host_name(host);
    return deny(403, "Host '" + std::string(host) + "' is not served here" +
                         (name.empty() ? "" : to_allow("--allowed-hosts", name)));
  }
  const std::string_view origin = request.header("origin");
  if (!guard_.origin_allowed(origin, host)) {
    // A browser takes a reply without permissions for a refusal, and shows nobody its text.
    if (request.method == "OPTIONS") return {.status = 200};
    const bool is_page = origin.find("://") != std::string_view::npos;  // files and sandboxed frames send "null"
    return deny(403,
                "Origin '" + std::string(origin) + "' is not allowed" +
                    (is_page ? to_allow("--allowed-origins", origin)
                             : "; a page has one if a server delivers it, not if it is opened as a file") +
                    (is_loopback_origin(origin) ? ", or localhost for all pages of the browser's own machine" : ""));
  }
  return {};
}

const Route* Gatekeeper::route(std::string_view method, std::string_view path) const {
  const auto found = std::ranges::find_if(
      routes_, [&](const Route& entry) { return entry.method == method && is_served_by(entry.path, path); });
  return found == routes_.end() ? nullptr : &*found;
}

Verdict Gatekeeper::find_route(const HttpRequest& request) const {
  const std::string_view method = request.method == "HEAD" ? std::string_view("GET") : request.method;
  const Route* const found = route(method, request.path);
  const std::string_view authorization = request.header("authorization");
  const std::string_view x_api_key = request.header("x-api-key");
  if (!(found != nullptr && found->options.is_public) && !keys_.accepts(presented_key(authorization, x_api_key))) {
    return deny(401, key_refusal(authorization, x_api_key));
  }
  if (found != nullptr) return {.route = found};
  const std::string methods = allowed_methods(request.path);
  if (methods.empty()) return refuse_path(request.path);
  Verdict verdict = deny(405, "Path '" + request.path + "' takes " + methods + ", not " + request.method);
  verdict.headers.emplace_back("Allow", methods);
  return verdict;
}

Verdict Gatekeeper::refuse_path(std::string_view path) const {
  const std::string refusal = "Path '" + std::string(path) + "' is not served here";
  for (const auto& [pattern, words] : explained_) {
    const bool is_begin = pattern.ends_with('*');
    const std::string_view stem = std::string_view(pattern).substr(0, pattern.size() - (is_begin ? 1 : 0));
    if (is_begin ? path.starts_with(stem) : path == stem) return deny(404, refusal + words);
  }
  if (const std::string near = near_path(path); !near.empty()) {
    return deny(404, refusal + "; did you mean '" + near + "'?");
  }
  const std::string below = paths_below(path);
  return deny(404, below.empty() ? refusal : refusal + ", but below it there is " + below);
}

// Returns the served path for one that is mistyped, of another version, or has a base URL's part twice.
std::string Gatekeeper::near_path(std::string_view path) const {
  if (path.size() > kLongestMistypedPath) return {};
  std::vector<std::string> known;
  for (const Route& route : routes_) {
    if (!is_pattern(route.path)) known.push_back(route.path);
  }
  return nearest_within(path.size() / kLettersPerMistake, path, known);
}

// Returns the served paths below a base URL such as "/v1", without those that lie below another of them.
std::string Gatekeeper::paths_below(std::string_view path) const {
  const std::string base = std::string(path.substr(0, path.find_last_not_of('/') + 1)) + "/";
  std::vector<std::string_view> below;
  for (const Route& route : routes_) {
    const auto covers = [&](std::string_view other) {
      return route.path == other || route.path.starts_with(std::string(other) + "/");
    };
    if (below.size() == kMostNamedPaths) break;
    if (route.path.starts_with(base) && std::ranges::none_of(below, covers)) below.push_back(route.path);
  }
  std::string text;
  for (const std::string_view each : below) text.append(text.empty() ? "'" : ", '").append(each).append("'");
  return text;
}

Verdict Gatekeeper::check_body(const HttpRequest& request, std::uint64_t body_bytes) const {
  if (body_bytes > body_bytes_max_) {
    return deny(413, "The request body of " + std::to_string(body_bytes) + " bytes is larger than " +
                         std::to_string(body_bytes_max_) + "; --max-body-mb sets the limit");
  }
  if (request.header("content-type").starts_with("multipart/")) return deny(415, "Send the request body as JSON");
  return {};
}

std::string Gatekeeper::allowed_methods(std::string_view path) const {
  std::vector<std::string_view> methods;
  const auto add = [&](std::string_view method) {
    if (std::ranges::find(methods, method) == methods.end()) methods.push_back(method);
  };
  for (const Route& route : routes_) {
    if (path != "*" && !is_served_by(route.path, path)) continue;
    add(route.method);
    if (route.method == "GET") add("HEAD");
  }
  if (!methods.empty()) add("OPTIONS");
  std::string text;
  for (const std::string_view method : methods) text.append(text.empty() ? "" : ", ").append(method);
  return text;
}

// A page that asks for a path that is not served gets the refusal with its request: it cannot read one of a preflight.
Verdict Gatekeeper::answer_options(const HttpRequest& request) const {
  const bool is_preflight =
      !request.header("origin").empty() && !request.header("access-control-request-method").empty();
  std::string methods = allowed_methods(request.path);
  if (methods.empty() && !is_preflight) return refuse_path(request.path);
  if (methods.empty()) methods = allowed_methods("*");
  Verdict verdict{.status = 200};
  verdict.headers.emplace_back("Allow", methods);
  if (!is_preflight) return verdict;
  verdict.headers.emplace_back("Access-Control-Allow-Methods", methods);
  const std::string_view names = request.header("access-control-request-headers");
  if (!names.empty() && is_name_list(names)) verdict.headers.emplace_back("Access-Control-Allow-Headers", names);
  if (request.header("access-control-request-private-network") == "true") {
    verdict.headers.emplace_back("Access-Control-Allow-Private-Network", "true");
  }
  verdict.headers.emplace_back("Access-Control-Max-Age", "600");
  return verdict;
}

}  // namespace kvkeep::server
