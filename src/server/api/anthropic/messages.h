#pragma once

// The body of the Messages API in the shape of chat completions, which templates know: conversation and tools.
//
//   system, role "system"   a system message, in its place
//   text                    content: one block gives a string, several give parts; empty blocks are left out
//   thinking                reasoning_content of the assistant's message; signatures are not looked at
//   tool_use                a tool call; its input as JSON text, keys in the order sent
//   tool_result             a message with role "tool", before other text of the same user message
//   image                   the name that `media` gives it, in the text of its message or result
//
// Messages of one role in a row become one, as the API does it.

#include "base/result.h"
#include "chat/render.h"
#include "server/api/json_body.h"
#include "server/api/request.h"

namespace kvkeep::server::api {

// kInvalid for malformed input, and for blocks that this server cannot read (images if its model does not see them,
// documents, results of Anthropic's own tools): a reply made without them would mislead. The result is not empty.
Result<Json> read_conversation(const Json& body, MediaReader& media);

// The reply continues a last message by the assistant without calls: moves that message to input.assistant_prefix.
void take_prefill(chat::RenderInput& input);

// Returns name, description and input_schema of each tool, keys of the schema in the order sent; null if there is none.
// All other keys (cache_control, defer_loading, input_examples...) are dropped. Tools without a schema are refused:
// those that Anthropic's servers run (web_search_...), and those that its models were trained on (bash_...,
// text_editor_...). A tool that searches for tools is left out, since all tools are in the prompt.
Result<Json> read_custom_tools(const Json& body);

// `tools` is the result of read_custom_tools().
Result<ToolUse> read_tool_use(const Json& body, const Json& tools);

}  // namespace kvkeep::server::api
