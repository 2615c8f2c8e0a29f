#pragma once

// Whose request it is (base/tenant.h).

#include <string_view>

#include "server/http/http_message.h"
#include "server/routes/routes.h"

namespace kvkeep::server {

// Of the request's `cache_salt` ("": it named none) and, with Service::tenant_by_key, of the key that it came with.
Tenant tenant_of(const Service& service, const HttpRequest& http, std::string_view cache_salt);

}  // namespace kvkeep::server
