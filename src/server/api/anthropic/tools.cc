#include "server/api/anthropic/tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

namespace kvkeep::server::api {
namespace {

constexpr std::string_view kToolSearch = "tool_search_tool_";

Result<std::string> type_of_tool(const Json& tool, const std::string& path) {
  std::string type = "custom";
  if (const Json* value = field(tool, "type"); value != nullptr) {
    if (!value->is_string()) return wrong_type(path + ".type", "a string", *value);
    type = value->get<std::string>();
  }
  return type;
}

Result<Json> read_custom_tool(const Json& tool, const std::string& path) {
  const Json* name = field(tool, "name");
  if (name == nullptr) return invalid(fmt::format("'{}.name' is required", path));
  if (!name->is_string() || *name == "") return invalid(fmt::format("'{}.name' must be a string, not empty", path));
  const Json* schema = field(tool, "input_schema");
  if (schema == nullptr) return invalid(fmt::format("'{}.input_schema' is required", path));
  if (!schema->is_object()) return wrong_type(path + ".input_schema", "an object", *schema);
  Json function = {{"name", *name}};
  if (const Json* description = field(tool, "description"); description != nullptr) {
    if (!description->is_string()) return wrong_type(path + ".description", "a string", *description);
    function["description"] = *description;
  }
  function["parameters"] = *schema;
  bool strict = false;
  TRY(read_bool(tool, "strict", strict));
  if (strict) function["strict"] = true;
  return Json{{"type", "function"}, {"function", std::move(function)}};
}

Result<std::string> named_tool(const Json& choice, const Json& tools) {
  const Json* name = field(choice, "name");
  if (name == nullptr) return invalid("'tool_choice.name' is required");
  if (!name->is_string()) return wrong_type("tool_choice.name", "a string", *name);
  const bool known = std::ranges::any_of(tools, [&](const Json& tool) { return tool["function"]["name"] == *name; });
  if (!known) return invalid(fmt::format("tool_choice: tool '{}' is not among 'tools'", name->get<std::string>()));
  return name->get<std::string>();
}

}  // namespace

Result<Json> read_custom_tools(const Json& body) {
  const Json* tools = field(body, "tools");
  if (tools == nullptr) return Json();
  if (!tools->is_array()) return wrong_type("tools", "an array", *tools);
  Json known = Json::array();
  for (std::size_t i = 0; i < tools->size(); ++i) {
    const Json& tool = (*tools)[i];
    const std::string path = fmt::format("tools.{}", i);
    if (!tool.is_object()) return wrong_type(path, "an object", tool);
    TRY_ASSIGN(const std::string type, type_of_tool(tool, path));
    if (type.starts_with(kToolSearch)) continue;
    if (type != "custom") {
      return invalid(fmt::format(
          "'{}': tools of type '{}' are not available here: describe your own tool with an input_schema", path, type));
    }
    TRY_ASSIGN(Json read, read_custom_tool(tool, path));
    known.push_back(std::move(read));
  }
  return known.empty() ? Json() : known;
}

Result<ToolUse> read_tool_use(const Json& body, const Json& tools) {
  ToolUse use;
  const Json* choice = field(body, "tool_choice");
  if (choice == nullptr) return use;
  if (!choice->is_object()) return wrong_type("tool_choice", "an object", *choice);
  bool one_at_a_time = false;
  TRY(read_bool(*choice, "disable_parallel_tool_use", one_at_a_time));
  use.parallel = !one_at_a_time;
  const Json type = choice->value("type", Json());
  if (type == "none") {
    use.choice = ToolChoice::kNone;
    return use;
  }
  if (type == "any") {
    use.choice = ToolChoice::kRequired;
  } else if (type == "tool") {
    use.choice = ToolChoice::kNamed;
  } else if (type != "auto") {
    return invalid("'tool_choice.type' must be 'auto', 'any', 'tool' or 'none'");
  }
  if (tools.empty() && use.choice != ToolChoice::kAuto) return invalid("'tool_choice' needs 'tools' to choose from");
  if (use.choice == ToolChoice::kNamed) {
    TRY_ASSIGN(use.name, named_tool(*choice, tools));
  }
  return use;
}

}  // namespace kvkeep::server::api
