#pragma once

// Rules that a request sets for the tokens of its reply: the grammar of its calls, and the limit on its thought.

#include "base/result.h"
#include "chat/tools/tool_format.h"
#include "engine/sampling.h"
#include "server/api/request.h"
#include "server/routes/event_queue.h"
#include "server/routes/routes.h"

namespace kvkeep::server {

// Sets the grammar if a call is required or named, or a tool is strict: calls in the reply then keep to the tools'
// schemas. `grammar` is that of another output format, or empty; next to such a format calls are free. kInvalid if a
// schema cannot be enforced, the model's format has no calls, or a reply cannot be both.
Status constrain_calls(const Service& service, const Reading& reading, const api::ToolUse& use,
                       engine::GrammarParams& grammar);

// Completes a limit on the thought that a request or the server has set, in the model's own tags. Removes it if the
// model has no tags that could end a thought: templates without thinking, and gpt-oss, whose thoughts are messages.
void limit_thinking(const Service& service, bool thinking_open, engine::ThinkingParams& thinking);

}  // namespace kvkeep::server
