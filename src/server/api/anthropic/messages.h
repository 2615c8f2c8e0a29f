#pragma once

// `system` and `messages` of the Messages API -> messages in OpenAI's shape, which templates know.
//
//   system, role "system"   a system message, in its place
//   text                    content: one block gives a string, several give parts; empty blocks are left out
//   thinking                reasoning_content of the assistant's message; signatures are not looked at
//   tool_use                a tool call; its input as JSON text, keys in the order sent
//   tool_result             a message with role "tool", before other text of the same user message
//
// Messages of one role in a row become one, as the API does it.

#include "base/result.h"
#include "chat/render.h"
#include "server/api/json_body.h"

namespace kvkeep::server::api {

// kInvalid for malformed input, and for blocks that this server cannot read (images, documents, results of Anthropic's
// own tools): a reply made without them would mislead. The result is not empty.
Result<Json> read_conversation(const Json& body);

// The reply continues a last message by the assistant without calls: moves that message to input.assistant_prefix.
void take_prefill(chat::RenderInput& input);

}  // namespace kvkeep::server::api
