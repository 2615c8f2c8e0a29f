#include "chat/tools/tool_set.h"

#include <utility>

#include "chat/tools/json_text.h"

namespace kvkeep::chat::tools {
namespace {

using nlohmann::ordered_json;

// A schema may refer to itself.
constexpr int kMaxSchemaDepth = 8;
constexpr int kMaxSchemaSteps = 1000;

using Types = ValueTypes;

void add_named(std::string_view type, Types& types) {
  if (type == "string") types.string = true;
  if (type == "boolean") types.boolean = true;
  if (type == "null") types.null = true;
  if (type == "object" || type == "array") types.structured = true;
}

void add_value(const ordered_json& value, Types& types) {
  types.string |= value.is_string();
  types.boolean |= value.is_boolean();
  types.null |= value.is_null();
  types.structured |= value.is_structured();
}

const ordered_json* referred(const ordered_json& root, const std::string& reference) {
  if (!reference.starts_with('#')) return nullptr;
  try {
    const ordered_json::json_pointer pointer(reference.substr(1));
    return root.contains(pointer) ? &root.at(pointer) : nullptr;
  } catch (const nlohmann::json::exception&) {
    return nullptr;  // no pointer, or it leads through an array
  }
}

// `steps` bounds schemas whose alternatives lead back to themselves.
void collect(const ordered_json& schema, const ordered_json& root, int depth, int& steps, Types& types) {
  if (!schema.is_object() || depth > kMaxSchemaDepth || --steps < 0) return;
  for (const auto& [key, value] : schema.items()) {
    if (key == "type" && value.is_string()) add_named(value.get_ref<const std::string&>(), types);
    if (key == "type" && value.is_array()) {
      for (const ordered_json& one : value) {
        if (one.is_string()) add_named(one.get_ref<const std::string&>(), types);
      }
    }
    if (key == "const") add_value(value, types);
    if (key == "enum" && value.is_array()) {
      for (const ordered_json& one : value) add_value(one, types);
    }
    if ((key == "anyOf" || key == "oneOf" || key == "allOf") && value.is_array()) {
      for (const ordered_json& one : value) collect(one, root, depth + 1, steps, types);
    }
    if (key == "$ref" && value.is_string()) {
      if (const auto* target = referred(root, value.get_ref<const std::string&>())) {
        collect(*target, root, depth + 1, steps, types);
      }
    }
  }
}

const ordered_json* member(const ordered_json& object, std::string_view name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(std::string(name));
  return found == object.end() ? nullptr : &*found;
}

const ordered_json* parameters_of(const ordered_json* function) {
  return function == nullptr ? nullptr : member(*function, "parameters");
}

// Words that models trained on Python write.
std::string_view python_word(std::string_view text, const Types& types) {
  if (types.boolean && text == "True") return "true";
  if (types.boolean && text == "False") return "false";
  if (types.null && text == "None") return "null";
  return {};
}

bool stays_string(std::string_view text, const Types& types) {
  if (!types.string) return false;
  if (text == "null") return !types.null;
  const bool looks_structured = text.starts_with('{') || text.starts_with('[');
  return !looks_structured || !types.structured;
}

}  // namespace

const ordered_json* ToolSet::find(std::string_view name) const {
  if (!tools_->is_array()) return nullptr;
  for (const ordered_json& tool : *tools_) {
    const ordered_json* function = member(tool, "function");
    const ordered_json* found = function == nullptr ? nullptr : member(*function, "name");
    if (found != nullptr && found->is_string() && found->get_ref<const std::string&>() == name) return function;
  }
  return nullptr;
}

bool ValueTypes::is_string(std::string_view beginning) const {
  const std::string_view bare = trimmed(beginning);
  if (!string) return false;
  if (structured && (bare.empty() || bare.front() == '{' || bare.front() == '[')) return false;
  const auto may_be = [&](std::string_view word) { return word.starts_with(bare); };
  if (null && (may_be("null") || may_be("None"))) return false;
  return !boolean || (!may_be("True") && !may_be("False"));
}

ValueTypes ToolSet::types_of(std::string_view tool, std::string_view parameter) const {
  ValueTypes types;
  const ordered_json* schema = parameters_of(find(tool));
  if (schema == nullptr) return types;
  const ordered_json* properties = member(*schema, "properties");
  const ordered_json* property = properties == nullptr ? nullptr : member(*properties, parameter);
  int steps = kMaxSchemaSteps;
  if (property != nullptr) collect(*property, *schema, 0, steps, types);
  return types;
}

std::string ToolSet::value_json(std::string_view tool, std::string_view parameter, std::string_view text) const {
  const ValueTypes types = types_of(tool, parameter);
  const std::string_view bare = trimmed(text);
  if (const std::string_view word = python_word(bare, types); !word.empty()) return std::string(word);
  if (!stays_string(bare, types) && is_json(bare)) return std::string(bare);
  return json_string(text);
}

}  // namespace kvkeep::chat::tools
