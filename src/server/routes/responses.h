#pragma once

// The routes of OpenAI's Responses API, for codex, @ai-sdk/openai and the openai libraries: /v1/responses and
// /v1/responses/input_tokens; and the shape of its errors, including those that come up before a handler runs. Called
// by add_routes().

#include "server/routes/routes.h"

namespace kvkeep::server {

void add_responses_routes(HttpServer& server, const Service& service);

}  // namespace kvkeep::server
