#include "server/api/anthropic/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/api/generation_fields.h"

namespace kvkeep::server::api {
namespace {

constexpr PartTypes kMessagesPartTypes{.text = "text", .picture = "image"};

enum class Role { kSystem, kUser, kAssistant };

// The parts of one message.
struct MessageTurn {
  std::vector<std::string> texts;  // none empty
  std::vector<std::string> thoughts;
  Json calls = Json::array();
  Json results = Json::array();  // whole messages
};

Status require_string(const Json& object, const char* name, const std::string& path) {
  const Json* value = field(object, name);
  if (value == nullptr) return invalid(fmt::format("'{}.{}' is required", path, name));
  if (!value->is_string()) return wrong_type(fmt::format("{}.{}", path, name), "a string", *value);
  return {};
}

void add_text(std::vector<std::string>& texts, const Json& block, const char* name) {
  std::string text = block[name].get<std::string>();
  if (!text.empty()) texts.push_back(std::move(text));
}

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) {
    const bool by_media = chat::ends_with_media_name(all) || chat::begins_with_media_name(text);
    if (!all.empty() && !by_media) all += '\n';
    all += text;
  }
  return all;
}

// The shortest form, so that two ways to send a text are one.
Json content_of(const std::vector<std::string>& texts) {
  if (texts.size() < 2) return texts.empty() ? "" : texts.front();
  Json parts = Json::array();
  for (const std::string& text : texts) parts.push_back({{"type", "text"}, {"text", text}});
  return parts;
}

bool first_line_tells_of_error(std::string_view text) {
  std::string line(text.substr(0, text.find('\n')));
  std::ranges::transform(line, line.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
  return line.find("error") != std::string::npos;
}

Status read_result_part(const Json& part, const std::string& path, MediaReader& media,
                        std::vector<std::string>& texts) {
  if (!part.is_object()) return wrong_type(path, "an object", part);
  TRY(require_string(part, "type", path));
  const std::string& type = part["type"].get_ref<const std::string&>();
  if (type == "text") {
    TRY(require_string(part, "text", path));
    add_text(texts, part, "text");
    return {};
  }
  if (type == "tool_reference") {  // the prompt has all tools already
    TRY(require_string(part, "tool_name", path));
    add_text(texts, part, "tool_name");
    return {};
  }
  if (type == "image" && media.pictures()) {
    TRY_ASSIGN(texts.emplace_back(), media.image_block(part, path));
    return {};
  }
  if (type == "image" || type == "document") {
    texts.push_back(left_out(type));
    return {};
  }
  return unreadable(path, type, media.type_here(type, kMessagesPartTypes));
}

Result<Json> read_result(const Json& block, const std::string& path, MediaReader& media) {
  TRY(require_string(block, "tool_use_id", path));
  bool is_error = false;
  TRY(read_bool(block, "is_error", is_error));
  std::vector<std::string> texts;
  if (const Json* content = field(block, "content"); content != nullptr) {
    if (content->is_string()) {
      add_text(texts, block, "content");
    } else if (content->is_array()) {
      for (std::size_t i = 0; i < content->size(); ++i) {
        TRY(read_result_part((*content)[i], fmt::format("{}.content.{}", path, i), media, texts));
      }
    } else {
      return wrong_type(path + ".content", "a string or an array of blocks", *content);
    }
  }
  std::string text = joined(texts);
  // Templates have no field for it, and a model that takes a failure for a result goes wrong.
  if (is_error && !first_line_tells_of_error(text)) text.insert(0, text.empty() ? "Error" : "Error: ");
  return Json{{"role", "tool"}, {"tool_call_id", block["tool_use_id"]}, {"content", std::move(text)}};
}

Result<Json> read_tool_use(const Json& block, const std::string& path) {
  TRY(require_string(block, "id", path));
  TRY(require_string(block, "name", path));
  const Json* input = field(block, "input");
  if (input != nullptr && !input->is_object()) return wrong_type(path + ".input", "an object", *input);
  return Json{{"id", block["id"]},
              {"type", "function"},
              {"function", {{"name", block["name"]}, {"arguments", input == nullptr ? "{}" : to_line(*input)}}}};
}

Status check_side(std::string_view type, Role role, Role wanted, const std::string& path) {
  if (role == wanted) return {};
  return invalid(fmt::format("'{}': `{}` blocks can only be in `{}` messages", path, type,
                             wanted == Role::kUser ? "user" : "assistant"));
}

Status read_block(const Json& block, Role role, const std::string& path, MediaReader& media, MessageTurn& turn) {
  if (!block.is_object()) return wrong_type(path, "an object", block);
  TRY(require_string(block, "type", path));
  const std::string& type = block["type"].get_ref<const std::string&>();
  if (type == "text") {
    TRY(require_string(block, "text", path));
    add_text(turn.texts, block, "text");
    return {};
  }
  if (type == "thinking" || type == "redacted_thinking") {
    TRY(check_side(type, role, Role::kAssistant, path));
    if (type == "redacted_thinking") return {};  // nothing here can read it
    TRY(require_string(block, "thinking", path));
    add_text(turn.thoughts, block, "thinking");
    return {};
  }
  if (type == "tool_use") {
    TRY(check_side(type, role, Role::kAssistant, path));
    TRY_ASSIGN(Json call, read_tool_use(block, path));
    turn.calls.push_back(std::move(call));
    return {};
  }
  if (type == "tool_result") {
    TRY(check_side(type, role, Role::kUser, path));
    TRY_ASSIGN(Json result, read_result(block, path, media));
    turn.results.push_back(std::move(result));
    return {};
  }
  if (type == "image" && media.pictures()) {
    TRY(check_side(type, role, Role::kUser, path));
    TRY_ASSIGN(turn.texts.emplace_back(), media.image_block(block, path));
    return {};
  }
  return unreadable(path, type, media.type_here(type, kMessagesPartTypes));
}

Result<MessageTurn> read_turn(const Json* content, Role role, const std::string& path, MediaReader& media) {
  MessageTurn turn;
  if (content == nullptr) return invalid(fmt::format("'{}' is required", path));
  if (content->is_string()) {
    std::string text = content->get<std::string>();
    if (!text.empty()) turn.texts.push_back(std::move(text));
    return turn;
  }
  if (!content->is_array()) return wrong_type(path, "a string or an array of blocks", *content);
  for (std::size_t i = 0; i < content->size(); ++i) {
    TRY(read_block((*content)[i], role, fmt::format("{}.{}", path, i), media, turn));
  }
  return turn;
}

// Appends turns to the messages; consecutive turns of one role are held back until they are complete.
class MessageList {
 public:
  void add(Role role, MessageTurn turn) {
    // A system message is never joined with another; results come before the text of their message.
    if (held_ && (role != role_ || role == Role::kSystem || !turn.results.empty())) flush();
    role_ = role;
    for (Json& result : turn.results) messages_.push_back(std::move(result));
    held_ = held_ || turn.results.empty() || !turn.texts.empty();
    std::ranges::move(turn.texts, std::back_inserter(turn_.texts));
    std::ranges::move(turn.thoughts, std::back_inserter(turn_.thoughts));
    for (Json& call : turn.calls) turn_.calls.push_back(std::move(call));
  }
  Json take() {
    if (held_) flush();
    return std::move(messages_);
  }

 private:
  void flush() {
    Json message = {{"role", role_ == Role::kSystem ? "system"
                             : role_ == Role::kUser ? "user"
                                                    : "assistant"},
                    {"content", content_of(turn_.texts)}};
    if (!turn_.thoughts.empty()) message["reasoning_content"] = joined(turn_.thoughts);
    if (!turn_.calls.empty()) message["tool_calls"] = std::move(turn_.calls);
    messages_.push_back(std::move(message));
    turn_ = {};
    held_ = false;
  }

  Json messages_ = Json::array();
  MessageTurn turn_;
  Role role_ = Role::kUser;
  bool held_ = false;
};

Result<Role> read_role(const Json& message, const std::string& path) {
  TRY(require_string(message, "role", path));
  const std::string& role = message["role"].get_ref<const std::string&>();
  if (role == "user") return Role::kUser;
  if (role == "assistant") return Role::kAssistant;
  if (role == "system") return Role::kSystem;
  return invalid(
      fmt::format("messages: Unexpected role \"{}\". Allowed roles are \"user\", \"assistant\" and \"system\".", role));
}

}  // namespace

Result<Json> read_conversation(const Json& body, MediaReader& media) {
  MessageList conversation;
  if (const Json* system = field(body, "system")) {
    TRY_ASSIGN(MessageTurn turn, read_turn(system, Role::kSystem, "system", media));
    if (!turn.texts.empty()) conversation.add(Role::kSystem, std::move(turn));
  }
  const Json* messages = field(body, "messages");
  if (messages == nullptr) return missing_field(body, "messages");
  if (!messages->is_array()) return wrong_type("messages", "an array", *messages);
  if (messages->empty()) return invalid("messages: at least one message is required");
  for (std::size_t i = 0; i < messages->size(); ++i) {
    const std::string path = fmt::format("messages.{}", i);
    const Json& message = (*messages)[i];
    if (!message.is_object()) return wrong_type(path, "an object", message);
    TRY_ASSIGN(const Role role, read_role(message, path));
    TRY_ASSIGN(MessageTurn turn, read_turn(field(message, "content"), role, path + ".content", media));
    conversation.add(role, std::move(turn));
  }
  return conversation.take();
}

void take_prefill(chat::RenderInput& input) {
  const Json& last = input.messages.back();
  if (last["role"] != "assistant" || last.contains("tool_calls")) return;
  const Json& content = last["content"];
  if (content.is_string()) {
    input.assistant_prefix = content.get<std::string>();
  } else {
    std::vector<std::string> texts;
    for (const Json& part : content) texts.push_back(part["text"].get<std::string>());
    input.assistant_prefix = joined(texts);
  }
  input.assistant_reasoning = last.value("reasoning_content", "");
  input.messages.erase(input.messages.size() - 1);
}

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
