// Headers that decide who may come in: Host, Origin and keys. Lines: the bound host, an allowed host, an allowed
// origin, Host, Origin, Authorization, x-api-key; the rest is a file of keys.

#include "fuzz.h"
#include "server/http/api_keys.h"
#include "server/http/http_message.h"
#include "server/http/origin_guard.h"

namespace kvkeep::server {
namespace {

void check_host(std::string_view bound, std::string_view allowed, const OriginGuard& guard, std::string_view host) {
  const std::string_view name = host_name(host);
  KVKEEP_ASSERT(host.contains(name), "a name is a part of the field");
  if (!guard.host_allowed(host)) return;
  KVKEEP_ASSERT(!name.empty(), "who comes in has a name");
  const bool is_bound_to_all = bound == "0.0.0.0" || bound == "::";
  const bool is_address = name.find_first_not_of("0123456789abcdefABCDEF:.") == std::string_view::npos;
  KVKEEP_ASSERT(is_loopback_name(name) || equals_ignoring_case(name, bound) ||
                    equals_ignoring_case(name, host_name(allowed)) || (is_bound_to_all && is_address),
                "a name that anybody may point at this machine is refused");
}

void check_origin(std::string_view allowed, const OriginGuard& guard, std::string_view origin, std::string_view host) {
  if (!guard.origin_allowed(origin, host)) return;
  KVKEEP_ASSERT(origin.empty() || equals_ignoring_case(origin, allowed) ||
                    equals_ignoring_case(origin, std::string("http://").append(host)),
                "no other page comes in");
}

void check_keys(std::string_view authorization, std::string_view x_api_key, std::string_view file) {
  const std::string_view key = presented_key(authorization, x_api_key);
  KVKEEP_ASSERT(authorization.contains(key) || x_api_key.contains(key), "a key is a part of a field");
  const std::vector<std::string> lines = parse_key_lines(file);
  for (const std::string& line : lines) {
    KVKEEP_ASSERT(!line.empty() && line.front() != '#' && file.contains(line), "a key is a line of the file");
  }
  const ApiKeys keys(lines);
  KVKEEP_ASSERT(keys.open() == lines.empty(), "a server with keys is closed");
  KVKEEP_ASSERT(keys.accepts(key) == (lines.empty() || std::ranges::find(lines, key) != lines.end()),
                "a key opens if it is one of them");
}

}  // namespace
}  // namespace kvkeep::server

KVKEEP_FUZZ_TARGET(http_headers)(const std::uint8_t* data, std::size_t size) {
  using namespace kvkeep;
  fuzz::Input input(data, size);
  const std::string bound(input.line());
  const std::string allowed_host(input.line());
  const std::string allowed_origin(input.line());
  const std::string_view host = input.line();
  const std::string_view origin = input.line();
  const std::string_view authorization = input.line();
  const std::string_view x_api_key = input.line();
  const auto guard = server::OriginGuard::make({bound}, {allowed_host}, {allowed_origin});
  if (guard) {
    server::check_host(bound, allowed_host, *guard, host);
    server::check_origin(allowed_origin, *guard, origin, host);
  }
  server::check_keys(authorization, x_api_key, fuzz::text_of(input.rest()));
  return 0;
}
