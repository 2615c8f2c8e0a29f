#pragma once

// What the trace is told of a request's sender.

#include <memory>

#include "server/api/request.h"
#include "server/http/http_message.h"
#include "server/run/trace.h"

namespace kvkeep::server {

// `with_prompt`: the body too. Of the headers only those that name a session or an API version, so that no key gets
// into a file.
std::shared_ptr<const RequestOrigin> origin_of(const HttpRequest& http, const api::GenerationRequest& request,
                                               bool with_prompt);

}  // namespace kvkeep::server
