#pragma once

// The routes of Anthropic's API, for Claude Code and @anthropic-ai/sdk: /v1/messages, /v1/messages/count_tokens, and
// the probe /api/hello. (/v1/models serves both families of clients.)

#include "server/routes/routes.h"

namespace kvkeep::server {

// Errors for these paths, and for any request with an anthropic-version, have the API's shape, wherever they arise.
void add_anthropic_routes(HttpServer& server, const Service& service);

}  // namespace kvkeep::server
