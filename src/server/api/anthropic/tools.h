#pragma once

// Turns `tools` and `tool_choice` of the Messages API into OpenAI's shape.

#include "base/result.h"
#include "server/api/json_body.h"
#include "server/api/request.h"

namespace kvkeep::server::api {

// Returns name, description and input_schema of each tool, keys of the schema in the order sent; null if there is none.
// All other keys (cache_control, defer_loading, input_examples...) are dropped. Tools without a schema are refused:
// those that Anthropic's servers run (web_search_...), and those that its models were trained on (bash_...,
// text_editor_...). A tool that searches for tools is left out, since all tools are in the prompt.
Result<Json> read_custom_tools(const Json& body);

// `tools` is the result of read_custom_tools().
Result<ToolUse> read_tool_use(const Json& body, const Json& tools);

}  // namespace kvkeep::server::api
