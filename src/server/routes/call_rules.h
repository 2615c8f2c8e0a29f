#pragma once

// Turns the rules that a request's tools set for the reply into a grammar for the sampler.

#include "base/result.h"
#include "server/api/request.h"
#include "server/routes/event_queue.h"
#include "server/routes/routes.h"

namespace kvkeep::server {

// Sets the grammar if a call is required or named, or a tool is strict: calls in the reply then keep to the tools'
// schemas. `grammar` is that of another output format, or empty; next to such a format calls are free. kInvalid if a
// schema cannot be enforced, the model's format has no calls, or a reply cannot be both.
Status constrain_calls(const Service& service, const Reading& reading, const api::ToolUse& use,
                       engine::GrammarParams& grammar);

}  // namespace kvkeep::server
