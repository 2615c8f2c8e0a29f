#pragma once

// POST /cache/lookup: how much would a prompt reuse if it came now? docs/trace.md describes it.

#include "server/http/http_message.h"
#include "server/routes/routes.h"

namespace kvkeep::server {

// Returns when the answer is sent, the client left or the server stops.
void cache_lookup(const Service& service, HttpRequest& http, ResponseWriter& writer);

}  // namespace kvkeep::server
