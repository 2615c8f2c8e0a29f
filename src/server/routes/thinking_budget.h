#pragma once

// The limit on a thought, in the model's own tags.

#include "chat/tools/tool_format.h"
#include "engine/sampling.h"
#include "server/routes/routes.h"

namespace kvkeep::server {

// Completes a limit that a request or the server has set. Removes it if the model has no tags that could end a thought:
// templates without thinking, and gpt-oss, whose thoughts are messages.
void limit_thinking(const Service& service, bool thinking_open, engine::ThinkingParams& thinking);

}  // namespace kvkeep::server
