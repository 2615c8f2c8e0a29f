#pragma once

// `tools` and `tool_choice` of the Messages API -> OpenAI's shape.

#include "base/result.h"
#include "server/api/json_body.h"
#include "server/api/request.h"

namespace kvkeep::server::api {

// name, description and input_schema of each tool, keys of the schema in the order sent; null: none. All other keys
// (cache_control, defer_loading, input_examples...) leave no trace. Refused are tools without a schema: those that
// Anthropic's servers run (web_search_...), and those that its models were trained on (bash_..., text_editor_...). A
// tool that searches for tools is left out: all of them are in the prompt.
Result<Json> read_custom_tools(const Json& body);

// `tools`: what read_custom_tools() gave.
Result<ToolUse> read_tool_use(const Json& body, const Json& tools);

}  // namespace kvkeep::server::api
