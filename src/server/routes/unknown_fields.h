#pragma once

// Reports fields of a request that no dialect knows: in a header of the reply, and once per client in the log.

#include <string>
#include <vector>

#include "server/http/http_message.h"
#include "server/routes/routes.h"

namespace kvkeep::server {

// Returns the header that names the fields, or no header if there are none. `unknown`: of api::unknown_fields(). A
// client is its address and its User-Agent; each of its fields is logged once, while service.unknown_fields has room.
HeaderList tell_of_unknown_fields(const Service& service, const HttpRequest& http, api::Dialect dialect,
                                  const std::vector<std::string>& unknown);

}  // namespace kvkeep::server
