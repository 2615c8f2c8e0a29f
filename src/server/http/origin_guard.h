#pragma once

// Keeps other people's web pages out. A page on any site may make its visitor's browser send requests to 127.0.0.1:
// directly (then the browser adds an Origin that is not the server's), or after pointing its own name at 127.0.0.1,
// "DNS rebinding" (then Host is that name). So both fields are checked, and no reply is ever shared with every origin.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvkeep::server {

// Immutable once built; then thread safe.
class OriginGuard {
 public:
  // The server listens on `bound_hosts`. `allowed_hosts`: more names for Host, without port. `allowed_origins`: origins
  // as browsers send them, "https://chat.example:8443", or "localhost" for every page that a server on the client's own
  // machine delivers. kInvalid at a wildcard or a malformed entry; a wildcard would let any page read the
  // conversations.
  static Result<OriginGuard> make(std::vector<std::string> bound_hosts, const std::vector<std::string>& allowed_hosts,
                                  std::vector<std::string> allowed_origins);

  // `host` is the Host field: "name", "name:port", "[::1]:port". Loopback names and addresses, the bound hosts and the
  // allowed ones pass; a server bound to every interface also takes any literal address, which cannot be rebound.
  bool host_allowed(std::string_view host) const;

  // `origin` is the Origin field and `host` the Host field of the same request. An absent origin passes, since it does
  // not come from a browser page. Otherwise it must be the server's own ("http://" + host) or an allowed one.
  bool origin_allowed(std::string_view origin, std::string_view host) const;

 private:
  std::vector<std::string> bound_hosts_;
  bool bound_to_all_ = false;
  bool allows_loopback_origins_ = false;
  std::vector<std::string> allowed_hosts_;
  std::vector<std::string> allowed_origins_;
};

// "name:port" -> "name", "[::1]:port" -> "::1". Returns "" if malformed.
std::string_view host_name(std::string_view host);

// 127.0.0.0/8, ::1, "localhost" and names under it.
bool is_loopback_name(std::string_view name);
// "http://localhost:3000", "https://[::1]".
bool is_loopback_origin(std::string_view origin);

}  // namespace kvkeep::server
