#pragma once

// Decides on a request by its head, before a byte of the body is read: refuse it as foreign, unknown, without a key or
// too large, or hand it to a route. Pure: no sockets, so every rule has a unit test.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "server/http/api_keys.h"
#include "server/http/http_error.h"
#include "server/http/http_message.h"
#include "server/http/http_server.h"
#include "server/http/origin_guard.h"

namespace kvkeep::server {

struct Route {
  std::string method;
  std::string path;
  Handler handler;
  RouteOptions options;
};

// Either `route`, or the reply to give instead. `headers` are sent with the reply in both cases.
struct Verdict {
  const Route* route = nullptr;
  int status = 0;
  std::string body = {};  // JSON, or empty
  HeaderList headers = {};
  std::string reason = {};  // of a refusal, as in `body`
};

// Immutable while serving; then thread safe.
class Gatekeeper {
 public:
  static Result<Gatekeeper> make(const HttpOptions& options);

  void add(Route route) { routes_.push_back(std::move(route)); }
  // The route of such requests; null if there is none.
  const Route* route(std::string_view method, std::string_view path) const;
  // The first shape that applies is used.
  void shape_errors(ErrorShape shape) { shapes_.push_back(std::move(shape)); }
  void explain_path(std::string path, std::string words) { explained_.emplace_back(std::move(path), std::move(words)); }
  // `request.body` is not read; the head announces `body_bytes`, 0 if it states no length.
  Verdict judge(const HttpRequest& request, std::uint64_t body_bytes = 0) const;
  // The error in the shape that the sender of this head expects.
  HttpError error(const HttpRequest& request, int status, std::string_view message) const;

 private:
  Gatekeeper(OriginGuard guard, const HttpOptions& options);
  // Decides without making a body.
  Verdict decide(const HttpRequest& request, std::uint64_t body_bytes) const;
  // The checks in their order; each returns a status of 0 for "nothing wrong".
  Verdict check_sender(const HttpRequest& request) const;
  Verdict find_route(const HttpRequest& request) const;
  Verdict check_body(const HttpRequest& request, std::uint64_t body_bytes) const;
  // For the field Allow; "" if nothing is served at the path. "*" stands for all paths.
  std::string allowed_methods(std::string_view path) const;
  Verdict refuse_path(std::string_view path) const;
  std::string near_path(std::string_view path) const;
  std::string paths_below(std::string_view path) const;
  Verdict answer_options(const HttpRequest& request) const;

  OriginGuard guard_;
  ApiKeys keys_;
  std::uint64_t body_bytes_max_;
  std::vector<Route> routes_;
  std::vector<ErrorShape> shapes_;
  std::vector<std::pair<std::string, std::string>> explained_;  // paths that are not served, and words about them
};

}  // namespace kvkeep::server
