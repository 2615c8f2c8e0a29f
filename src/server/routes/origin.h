#pragma once

// The facts about a request's sender that the trace gets.

#include <memory>

#include "server/api/request.h"
#include "server/http/http_message.h"
#include "server/run/trace.h"

namespace kvkeep::server {

// With `with_prompt` also the body. Only headers that name a session or an API version are kept, so that no key gets
// into a file.
std::shared_ptr<const RequestOrigin> origin_of(const HttpRequest& http, const api::GenerationRequest& request,
                                               bool with_prompt);

}  // namespace kvkeep::server
