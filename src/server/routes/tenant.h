#pragma once

// Whose request it is (base/tenant.h).

#include <cstdint>
#include <string_view>

#include "server/http/http_message.h"
#include "server/routes/routes.h"

namespace kvkeep::server {

// Of the request's `cache_salt` ("": it named none) and, with Service::tenant_by_key, of the key that it came with.
Tenant tenant_of(const Service& service, const HttpRequest& http, std::string_view cache_salt);

// Which program asks, by the name before the version in its User-Agent, and for which tenant: the prompts of one are
// alike. Numbers are only compared.
std::uint64_t client_of(const HttpRequest& http, const Tenant& tenant);

}  // namespace kvkeep::server
