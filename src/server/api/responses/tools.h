#pragma once

// `tools` and `tool_choice` of the Responses API -> the shape of chat completions, which templates know.
//
//   function    name, description, parameters (keys in the order sent), `strict` if it is true
//   custom      a function whose only parameter is the text `input`; a grammar for the text goes into its description
//   namespace   its tools, each under a name of both (flat_name)
//
// Tools of other types are run by OpenAI's servers (web_search, file_search...): clients list them by default, so that
// they are left out, and the model does not see them.

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "server/api/json_body.h"
#include "server/api/request.h"

namespace kvkeep::server::api {

// The client's name for a tool that the model calls by a flat name.
struct ClientTool {
  std::string space = {};  // its namespace; "": none
  std::string name;
  bool is_custom = false;
};

// By flat names; not const while it is filled.
using ClientTools = std::map<std::string, ClientTool, std::less<>>;

// "space__name", or "name" if there is no namespace.
std::string flat_name(std::string_view space, std::string_view name);

// The arguments of a call of a custom tool, and the text back from them. Arguments of another form are taken as the
// text.
std::string custom_arguments(std::string_view input);
std::string custom_input(const std::string& arguments);

struct ResponseTools {
  Json tools;  // null: none
  ClientTools names;
};
Result<ResponseTools> read_response_tools(const Json& body);

// Reads tool_choice and parallel_tool_calls. `tools` is the result of read_response_tools().
Result<ToolUse> read_response_tool_use(const Json& body, const Json& tools);

}  // namespace kvkeep::server::api
