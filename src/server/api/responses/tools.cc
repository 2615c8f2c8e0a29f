#include "server/api/responses/tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace kvkeep::server::api {
namespace {

constexpr std::string_view kInput = "input";

Result<std::string> required_string(const Json& object, std::string_view name, const std::string& path) {
  const Json* value = field(object, name);
  if (value == nullptr) return invalid(fmt::format("'{}.{}' is required", path, name));
  if (!value->is_string()) return wrong_type(fmt::format("{}.{}", path, name), "a string", *value);
  if (*value == "") return invalid(fmt::format("'{}.{}' must not be empty", path, name));
  return value->get<std::string>();
}

Result<std::string> description_of(const Json& tool, const std::string& path) {
  const Json* description = field(tool, "description");
  if (description == nullptr) return std::string();
  if (!description->is_string()) return wrong_type(path + ".description", "a string", *description);
  return description->get<std::string>();
}

Result<Json> read_function(const Json& tool, const std::string& path) {
  Json function = Json::object();
  TRY_ASSIGN(const std::string description, description_of(tool, path));
  if (!description.empty()) function["description"] = description;
  const Json* schema = field(tool, "parameters");
  if (schema != nullptr && !schema->is_object()) return wrong_type(path + ".parameters", "an object", *schema);
  function["parameters"] = schema != nullptr ? *schema : Json{{"type", "object"}, {"properties", Json::object()}};
  bool strict = false;
  TRY(read_bool(tool, "strict", strict));
  if (strict) function["strict"] = true;
  return function;
}

// The prompt tells the model how the text must look; it is not enforced.
Result<std::string> grammar_note(const Json& tool, const std::string& path) {
  const Json* format = field(tool, "format");
  if (format == nullptr) return std::string();
  if (!format->is_object()) return wrong_type(path + ".format", "an object", *format);
  std::string syntax;
  std::string definition;
  TRY(read_string(*format, "syntax", syntax));
  TRY(read_string(*format, "definition", definition));
  if (definition.empty()) return std::string();
  return fmt::format("\n\nThe input must match this grammar{}:\n{}", syntax.empty() ? "" : " (" + syntax + ")",
                     definition);
}

Result<Json> read_custom(const Json& tool, const std::string& path) {
  TRY_ASSIGN(std::string description, description_of(tool, path));
  TRY_ASSIGN(const std::string note, grammar_note(tool, path));
  return Json{{"description", description.append(note)},
              {"parameters",
               {{"type", "object"},
                {"properties", {{kInput, {{"type", "string"}}}}},
                {"required", Json::array({kInput})},
                {"additionalProperties", false}}}};
}

class ToolReader {
 public:
  Status add(const Json& tool, const std::string& path, const std::string& space) {
    if (!tool.is_object()) return wrong_type(path, "an object", tool);
    TRY_ASSIGN(const std::string type, required_string(tool, "type", path));
    if (type == "namespace" && space.empty()) return add_namespace(tool, path);
    if (type != "function" && type != "custom") return {};
    TRY_ASSIGN(const std::string name, required_string(tool, "name", path));
    TRY_ASSIGN(const Json read, type == "custom" ? read_custom(tool, path) : read_function(tool, path));
    const std::string flat = flat_name(space, name);
    const ClientTool known{.space = space, .name = name, .is_custom = type == "custom"};
    if (!result_.names.emplace(flat, known).second) {
      return invalid(fmt::format("'{}.name': there is another tool '{}'", path, flat));
    }
    Json function = {{"name", flat}};
    function.update(read);
    result_.tools.push_back({{"type", "function"}, {"function", std::move(function)}});
    return {};
  }
  ResponseTools take() { return std::move(result_); }

 private:
  Status add_namespace(const Json& tool, const std::string& path) {
    TRY_ASSIGN(const std::string name, required_string(tool, "name", path));
    const Json* tools = field(tool, "tools");
    if (tools == nullptr) return {};
    if (!tools->is_array()) return wrong_type(path + ".tools", "an array", *tools);
    for (std::size_t i = 0; i < tools->size(); ++i) TRY(add((*tools)[i], fmt::format("{}.tools[{}]", path, i), name));
    return {};
  }

  ResponseTools result_;
};

// Returns the flat name of the tool that a choice names.
Result<std::string> named_tool(const Json& choice, const Json& tools, const std::string& path) {
  TRY_ASSIGN(const std::string name, required_string(choice, "name", path));
  std::string space;
  TRY(read_string(choice, "namespace", space));
  std::string flat = flat_name(space, name);
  if (!std::ranges::any_of(tools, [&](const Json& tool) { return tool["function"]["name"] == flat; })) {
    return invalid(fmt::format("'{}' names the tool '{}', which is not among 'tools'", path, flat));
  }
  return flat;
}

bool is_named(const Json& type) { return type == "function" || type == "custom"; }

// {"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"..."}]}
Status read_allowed(const Json& choice, const Json& tools, ToolUse& use) {
  const Json mode = choice.value("mode", Json("auto"));
  if (mode != "auto" && mode != "required") return invalid("'tool_choice.mode' must be 'auto' or 'required'");
  if (mode == "required") use.choice = ToolChoice::kRequired;
  const Json* allowed = field(choice, "tools");
  if (allowed == nullptr || !allowed->is_array()) return invalid("'tool_choice.tools' must be an array");
  for (std::size_t i = 0; i < allowed->size(); ++i) {
    const Json& one = (*allowed)[i];
    const std::string path = fmt::format("tool_choice.tools[{}]", i);
    if (!one.is_object()) return wrong_type(path, "an object", one);
    if (!is_named(one.value("type", Json()))) continue;  // the prompt does not have it either
    TRY_ASSIGN(std::string name, named_tool(one, tools, path));
    use.allowed.push_back(std::move(name));
  }
  if (!use.allowed.empty()) return {};
  if (mode == "required") return invalid("'tool_choice' asks for a call, but allows no tool that is available here");
  use.choice = ToolChoice::kNone;
  return {};
}

Status read_choice_object(const Json& choice, const Json& tools, ToolUse& use) {
  const Json type = choice.value("type", Json());
  if (type == "allowed_tools") return read_allowed(choice, tools, use);
  if (!is_named(type)) {
    return invalid("'tool_choice.type' must be 'function', 'custom' or 'allowed_tools': other tools do not run here");
  }
  TRY_ASSIGN(use.name, named_tool(choice, tools, "tool_choice"));
  use.choice = ToolChoice::kNamed;
  use.parallel = false;
  return {};
}

}  // namespace

std::string flat_name(std::string_view space, std::string_view name) {
  if (space.empty()) return std::string(name);
  return fmt::format("{}{}{}", space, space.ends_with("__") ? "" : "__", name);
}

std::string custom_arguments(std::string_view input) { return to_line({{kInput, input}}); }

std::string custom_input(const std::string& arguments) {
  const Json json = Json::parse(arguments, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return arguments;
  const Json* input = field(json, kInput);
  return input != nullptr && input->is_string() ? input->get<std::string>() : arguments;
}

Result<ResponseTools> read_response_tools(const Json& body) {
  const Json* tools = field(body, "tools");
  if (tools == nullptr) return ResponseTools{};
  if (!tools->is_array()) return wrong_type("tools", "an array", *tools);
  ToolReader reader;
  for (std::size_t i = 0; i < tools->size(); ++i) TRY(reader.add((*tools)[i], fmt::format("tools[{}]", i), {}));
  return reader.take();
}

Result<ToolUse> read_response_tool_use(const Json& body, const Json& tools) {
  ToolUse use;
  TRY(read_bool(body, "parallel_tool_calls", use.parallel));
  const Json* choice = field(body, "tool_choice");
  if (choice == nullptr || *choice == "auto") return use;
  if (choice->is_object()) {
    TRY(read_choice_object(*choice, tools, use));
    return use;
  }
  if (*choice == "none") {
    use.choice = ToolChoice::kNone;
  } else if (*choice == "required") {
    use.choice = ToolChoice::kRequired;
    if (tools.empty()) return invalid("'tool_choice' asks for a call, but there are no 'tools' that run here");
  } else {
    return invalid("'tool_choice' must be 'auto', 'none', 'required' or an object that names tools");
  }
  return use;
}

}  // namespace kvkeep::server::api
