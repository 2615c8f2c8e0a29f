#pragma once

// The tenant and the client of a request (base/hash.h).

#include <cstdint>
#include <string_view>

#include "server/http/http_message.h"
#include "server/routes/routes.h"

namespace kvkeep::server {

// The tenant of the request's `cache_salt` ("": none) and, with Service::tenant_by_key, of the key that it came with.
Tenant tenant_of(const Service& service, const HttpRequest& http, std::string_view cache_salt);

// The client: the program, by the name before the version in its User-Agent, and the tenant. Prompts of one client are
// alike. The numbers are only compared.
std::uint64_t client_of(const HttpRequest& http, const Tenant& tenant);

}  // namespace kvkeep::server
