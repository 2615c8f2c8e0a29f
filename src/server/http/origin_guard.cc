#include "server/http/origin_guard.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "server/http/http_message.h"
#include "server/http/http_server.h"

namespace kvkeep::server {
namespace {

bool contains_ignoring_case(const std::vector<std::string>& list, std::string_view item) {
  return std::ranges::any_of(list, [&](const std::string& entry) { return equals_ignoring_case(entry, item); });
}

bool is_port(std::string_view text) {
  return !text.empty() && text.size() <= 5 && text.find_first_not_of("0123456789") == std::string_view::npos;
}

bool is_ipv4_literal(std::string_view name) {
  int parts = 0;
  while (true) {
    const auto dot = name.find('.');
    const std::string_view part = name.substr(0, dot);
    unsigned value = 256;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc{} || end != part.data() + part.size() || value > 255) return false;
    ++parts;
    if (dot == std::string_view::npos) return parts == 4;
    name.remove_prefix(dot + 1);
  }
}

// Only a literal address can contain a colon here: ports were cut off before.
bool is_literal_address(std::string_view name) {
  return name.find(':') != std::string_view::npos || is_ipv4_literal(name);
}

}  // namespace

std::string_view host_name(std::string_view host) {
  std::string_view name = host;
  std::string_view rest;
  if (host.starts_with('[')) {
    const auto end = host.find(']');
    if (end == std::string_view::npos) return {};
    name = host.substr(1, end - 1);
    if (name.find_first_not_of("0123456789abcdefABCDEF:.") != std::string_view::npos) return {};
    rest = host.substr(end + 1);
  } else if (const auto colon = host.find(':'); colon != std::string_view::npos) {
    name = host.substr(0, colon);
    rest = host.substr(colon);
  }
  if (!rest.empty() && (rest.front() != ':' || !is_port(rest.substr(1)))) return {};
  if (name.ends_with('.')) name.remove_suffix(1);  // "localhost." is the same name, fully qualified
  return name;
}

bool is_loopback_name(std::string_view name) {
  if (equals_ignoring_case(name, "localhost") || name == "::1") return true;
  constexpr std::string_view kSuffix = ".localhost";
  if (name.size() > kSuffix.size() && equals_ignoring_case(name.substr(name.size() - kSuffix.size()), kSuffix)) {
    return true;
  }
  return name.starts_with("127.") && is_ipv4_literal(name);
}

bool is_loopback_origin(std::string_view origin) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (origin.starts_with(scheme)) return is_loopback_name(host_name(origin.substr(scheme.size())));
  }
  return false;
}

Result<OriginGuard> OriginGuard::make(std::vector<std::string> bound_hosts,
                                      const std::vector<std::string>& allowed_hosts,
                                      std::vector<std::string> allowed_origins) {
  OriginGuard guard;
  for (const std::string& host : allowed_hosts) {
    const std::string_view name = host_name(host);
    if (name.empty() || host.find('*') != std::string::npos) {
      return invalid("'" + host + "' is not a host name: list the names that clients use, without wildcards");
    }
    guard.allowed_hosts_.emplace_back(name);
  }
  for (const std::string& origin : allowed_origins) {
    if (origin == "localhost") continue;
    const auto scheme = origin.find("://");
    if (origin.find('*') != std::string::npos || scheme == std::string::npos || scheme == 0 ||
        origin.find('/', scheme + 3) != std::string::npos || scheme + 3 == origin.size()) {
      return invalid("'" + origin +
                     "' is not an origin: write it as browsers send it, such as http://localhost:3000, or " +
                     "localhost for all pages of the browser's own machine");
    }
  }
  guard.bound_to_all_ = std::ranges::any_of(bound_hosts, is_every_interface);
  guard.bound_hosts_ = std::move(bound_hosts);
  guard.allows_loopback_origins_ = std::erase(allowed_origins, "localhost") > 0;
  guard.allowed_origins_ = std::move(allowed_origins);
  return guard;
}

bool OriginGuard::host_allowed(std::string_view host) const {
  const std::string_view name = host_name(host);
  if (name.empty()) return false;
  if (is_loopback_name(name) || contains_ignoring_case(bound_hosts_, name)) return true;
  return contains_ignoring_case(allowed_hosts_, name) || (bound_to_all_ && is_literal_address(name));
}

bool OriginGuard::origin_allowed(std::string_view origin, std::string_view host) const {
  if (origin.empty() || contains_ignoring_case(allowed_origins_, origin)) return true;
  if (allows_loopback_origins_ && is_loopback_origin(origin)) return true;
  constexpr std::string_view kScheme = "http://";
  return origin.size() > kScheme.size() && equals_ignoring_case(origin.substr(0, kScheme.size()), kScheme) &&
         equals_ignoring_case(origin.substr(kScheme.size()), host);
}

}  // namespace kvkeep::server
