#include "server/api/openai/chat.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "server/api/generation_fields.h"
#include "server/api/known_fields.h"
#include "server/api/template_switches.h"

namespace kvkeep::server::api {
namespace {

constexpr std::array kRoles =
    std::to_array<std::string_view>({"system", "developer", "user", "assistant", "tool", "function"});

constexpr PartTypes kChatPartTypes{.text = "text", .picture = "image_url", .sound = "input_audio", .file = "file"};

// Returns true if a part of this type is a picture, sound or file that the model takes.
bool model_takes(const MediaReader& media, const Json& type) {
  return (type == "image_url" && media.pictures()) || (type == "input_audio" && media.sound()) ||
         (type == "file" && media.any());
}

// Returns the name that replaces a part. Precondition: model_takes().
Result<std::string> media_name(const Json& part, const std::string& path, MediaReader& media) {
  if (part["type"] == "image_url") return media.image_url(part, path);
  return part["type"] == "file" ? media.chat_file(part, path) : media.input_audio(part, path);
}

// Users and tools show pictures; an answer of the model is text.
Status read_media(Json& message, const std::string& path, MediaReader& media) {
  const Json* content = field(message, "content");
  if (content == nullptr || !content->is_array()) return {};
  for (std::size_t i = 0; i < content->size(); ++i) {
    Json& part = message["content"][i];
    const Json* type = part.is_object() ? field(part, "type") : nullptr;
    if (type == nullptr || !model_takes(media, *type)) continue;
    const std::string place = fmt::format("{}.content[{}]", path, i);
    if (message["role"] == "assistant") return not_of_role(place, "assistant");
    TRY_ASSIGN(std::string name, media_name(part, place, media));
    part = {{"type", "text"}, {"text", std::move(name)}};
  }
  return {};
}

Status check_part(const Json& part, const std::string& path, const MediaReader& media) {
  if (!part.is_object()) return wrong_type(path, "an object", part);
  const Json* type = field(part, "type");
  if (type == nullptr || !type->is_string()) return invalid(fmt::format("'{}.type' is required", path));
  if (*type != "text") {
    const std::string& name = type->get_ref<const std::string&>();
    return unreadable(path, name, media.type_here(name, kChatPartTypes));
  }
  const Json* text = field(part, "text");
  if (text == nullptr) return invalid(fmt::format("'{}.text' is required", path));
  if (!text->is_string()) return wrong_type(path + ".text", "a string", *text);
  return {};
}

// A tool's result may contain anything.
void leave_out_unreadable(Json& message) {
  if (message["role"] != "tool" || !message.contains("content") || !message["content"].is_array()) return;
  for (Json& part : message["content"]) {
    const Json* type = part.is_object() ? field(part, "type") : nullptr;
    if (type == nullptr || !type->is_string() || *type == "text") continue;
    part = {{"type", "text"}, {"text", left_out(type->get_ref<const std::string&>())}};
  }
}

Status check_content(const Json& message, const std::string& path, const MediaReader& media) {
  const Json* content = field(message, "content");
  if (content == nullptr) {
    const bool assistant = message["role"] == "assistant";
    if (assistant && (message.contains("tool_calls") || field(message, "reasoning_content") != nullptr)) return {};
    return invalid(assistant ? fmt::format("'{}' must have 'content' or 'tool_calls'", path)
                             : fmt::format("'{}.content' is required", path));
  }
  if (content->is_string()) return {};
  if (!content->is_array()) return wrong_type(path + ".content", "a string or an array of parts", *content);
  for (std::size_t i = 0; i < content->size(); ++i) {
    TRY(check_part((*content)[i], fmt::format("{}.content[{}]", path, i), media));
  }
  return {};
}

// Gives a call the fields that templates rely on.
Status complete_tool_call(Json& call, const std::string& path) {
  if (!call.is_object()) return wrong_type(path, "an object", call);
  const Json* type = field(call, "type");
  if (type != nullptr && *type != "function") return invalid(fmt::format("'{}.type' must be 'function'", path));
  if (type == nullptr) call["type"] = "function";
  const Json* function = field(call, "function");
  if (function == nullptr || !function->is_object())
    return invalid(fmt::format("'{}.function' must be an object", path));
  const Json* name = field(*function, "name");
  if (name == nullptr || !name->is_string()) return invalid(fmt::format("'{}.function.name' must be a string", path));
  const Json* arguments = field(*function, "arguments");
  if (arguments == nullptr) {
    call["function"]["arguments"] = "{}";
  } else if (!arguments->is_string() && !arguments->is_object()) {
    return wrong_type(path + ".function.arguments", "a string or an object", *arguments);
  }
  return {};
}

Status complete_tool_calls(Json& message, const std::string& path) {
  const Json* calls = field(message, "tool_calls");
  if (calls == nullptr || calls->empty()) {
    message.erase("tool_calls");  // null and [] mean none; templates only check whether the key is there
    return {};
  }
  if (!calls->is_array()) return wrong_type(path + ".tool_calls", "an array", *calls);
  for (std::size_t i = 0; i < message["tool_calls"].size(); ++i) {
    TRY(complete_tool_call(message["tool_calls"][i], fmt::format("{}.tool_calls[{}]", path, i)));
  }
  return {};
}

Status check_message(Json& message, const std::string& path, MediaReader& media) {
  if (!message.is_object()) return wrong_type(path, "an object", message);
  const Json* role = field(message, "role");
  if (role == nullptr) return invalid(fmt::format("'{}.role' is required", path));
  if (!role->is_string()) return wrong_type(path + ".role", "a string", *role);
  if (std::ranges::find(kRoles, role->get_ref<const std::string&>()) == kRoles.end()) {
    return invalid(fmt::format("'{}.role' must be system, developer, user, assistant or tool, not '{}'", path,
                               role->get_ref<const std::string&>()));
  }
  for (const std::string_view name : {"name", "tool_call_id", "reasoning_content"}) {
    const Json* value = field(message, name);
    if (value != nullptr && !value->is_string())
      return wrong_type(fmt::format("{}.{}", path, name), "a string", *value);
    if (value == nullptr) message.erase(std::string(name));
  }
  TRY(complete_tool_calls(message, path));
  TRY(read_media(message, path, media));
  leave_out_unreadable(message);
  return check_content(message, path, media);
}

// Moves the messages out of the body.
Result<Json> read_messages(Json& body, MediaReader& media) {
  const Json* messages = field(body, "messages");
  if (messages == nullptr) return missing_field(body, "messages");
  if (!messages->is_array()) return wrong_type("messages", "an array", *messages);
  if (messages->empty()) return invalid("'messages' must not be empty");
  Json taken = std::move(body["messages"]);
  for (std::size_t i = 0; i < taken.size(); ++i) TRY(check_message(taken[i], fmt::format("messages[{}]", i), media));
  return taken;
}

// Moves the tools out of the body.
Result<Json> read_tools(Json& body) {
  const Json* tools = field(body, "tools");
  if (tools == nullptr) return Json();
  if (!tools->is_array()) return wrong_type("tools", "an array", *tools);
  for (std::size_t i = 0; i < tools->size(); ++i) {
    const Json& tool = (*tools)[i];
    const std::string path = fmt::format("tools[{}]", i);
    if (!tool.is_object()) return wrong_type(path, "an object", tool);
    const Json* type = field(tool, "type");
    if (type == nullptr || *type != "function") return invalid(fmt::format("'{}.type' must be 'function'", path));
    const Json* function = field(tool, "function");
    if (function == nullptr || !function->is_object())
      return invalid(fmt::format("'{}.function' must be an object", path));
    const Json* name = field(*function, "name");
    if (name == nullptr || !name->is_string()) return invalid(fmt::format("'{}.function.name' must be a string", path));
  }
  return tools->empty() ? Json() : std::move(body["tools"]);
}

Result<std::string> chosen_tool(const Json& choice) {
  const Json* type = field(choice, "type");
  if (type != nullptr && *type != "function") return invalid("'tool_choice.type' must be 'function'");
  const Json* function = field(choice, "function");
  const Json* name = field(function != nullptr && function->is_object() ? *function : choice, "name");
  if (name == nullptr || !name->is_string()) return invalid("'tool_choice.function.name' must be a string");
  return name->get<std::string>();
}

Result<ToolUse> read_tool_use(const Json& body) {
  ToolUse use;
  TRY(read_bool(body, "parallel_tool_calls", use.parallel));
  const Json* choice = field(body, "tool_choice");
  if (choice == nullptr || *choice == "auto") return use;
  if (*choice == "none") {
    use.choice = ToolChoice::kNone;
    return use;
  }
  if (*choice == "required") {
    use.choice = ToolChoice::kRequired;
  } else if (choice->is_object()) {
    TRY_ASSIGN(use.name, chosen_tool(*choice));
    use.choice = ToolChoice::kNamed;
    use.parallel = false;
  } else {
    return invalid(
        "'tool_choice' must be 'auto', 'none', 'required' or {\"type\":\"function\",\"function\":{\"name\":...}}");
  }
  return use;
}

// A call can be forced only if there is a tool to call.
Status check_tool_use(const ToolUse& use, const Json& tools) {
  if (use.choice != ToolChoice::kRequired && use.choice != ToolChoice::kNamed) return {};
  if (!tools.is_array() || tools.empty()) return invalid("'tool_choice' asks for a call, but there are no 'tools'");
  const auto is_named = [&](const Json& tool) { return tool["function"]["name"] == use.name; };
  if (use.choice == ToolChoice::kNamed && std::ranges::none_of(tools, is_named)) {
    return invalid(fmt::format("'tool_choice' names the tool '{}', which is not among 'tools'", use.name));
  }
  return {};
}

std::string text_of(const Json& content) {
  if (content.is_string()) return content.get<std::string>();
  std::string text;
  for (const Json& part : content) {
    if (!text.empty()) text += '\n';
    text += part["text"].get_ref<const std::string&>();
  }
  return text;
}

Status take_assistant_prefix(chat::RenderInput& input) {
  Json& messages = input.messages;
  if (messages.back()["role"] != "assistant" || messages.back().contains("tool_calls")) return {};
  if (messages.size() > 1 && messages[messages.size() - 2]["role"] == "assistant") {
    return invalid("'messages' must not end with two messages by the assistant");
  }
  if (const Json* content = field(messages.back(), "content")) input.assistant_prefix = text_of(*content);
  TRY(read_string(messages.back(), "reasoning_content", input.assistant_reasoning));
  messages.erase(messages.size() - 1);
  if (messages.empty()) return invalid("'messages' must have one that the assistant answers");
  input.add_generation_prompt = true;
  return {};
}

// Fields of the body replace the server's.
Status read_template_kwargs(const Json& body, Json& kwargs) {
  std::string effort;
  TRY(read_string(body, "reasoning_effort", effort));
  if (!effort.empty()) kwargs["reasoning_effort"] = effort;
  if (effort == "none") set_thinking(kwargs, false);
  return read_template_switches(body, kwargs);
}

Status read_reasoning_format(const Json& body, chat::tools::ReasoningFormat& format) {
  using chat::tools::ReasoningFormat;
  std::string name;
  TRY(read_string(body, "reasoning_format", name));
  if (name.empty()) return {};
  if (name == "auto" || name == "deepseek") {
    format = ReasoningFormat::kDeepSeek;
  } else if (name == "none") {
    format = ReasoningFormat::kNone;
  } else if (name == "deepseek-legacy") {
    format = ReasoningFormat::kDeepSeekLegacy;
  } else {
    return invalid("'reasoning_format' must be auto, none, deepseek or deepseek-legacy");
  }
  return {};
}

// OpenAI's fields, and llama-server's `n_probs`.
Status read_scores(const Json& body, std::optional<std::size_t>& count) {
  bool wanted = false;
  TRY(read_bool(body, "logprobs", wanted));
  std::optional<std::size_t> likeliest;
  TRY(read_scored_count(body, "top_logprobs", likeliest));
  if (likeliest && !wanted) return invalid("'top_logprobs' needs 'logprobs': true");
  if (wanted) count = likeliest.value_or(0);
  return read_scored_count(body, "n_probs", count);
}

}  // namespace

Result<chat::RenderInput> read_chat_prompt(Json& body, MediaReader media, const Json& kwargs) {
  chat::RenderInput input;
  if (kwargs.is_object()) input.template_kwargs = kwargs;
  TRY_ASSIGN(input.messages, read_messages(body, media));
  input.media = media.take();
  TRY_ASSIGN(input.tools, read_tools(body));
  TRY(read_tool_use(body));
  TRY(read_template_kwargs(body, input.template_kwargs));
  TRY(read_bool(body, "add_generation_prompt", input.add_generation_prompt));
  TRY(take_assistant_prefix(input));
  return input;
}

Result<GenerationRequest> parse_chat(std::string body, const RequestDefaults& defaults) {
  MediaReader media(defaults.media_rules());
  TRY_ASSIGN(Json json, parse_body(std::move(body)));
  GenerationRequest request;
  TRY_ASSIGN(request.unknown_fields, unknown_fields(json, Dialect::kChat, defaults.strict_fields));
  TRY_ASSIGN(request.prompt, read_chat_prompt(json, std::move(media), defaults.template_kwargs));
  TRY_ASSIGN(request.tools, read_tool_use(json));
  TRY(check_tool_use(request.tools, std::get<chat::RenderInput>(request.prompt).tools));
  request.reasoning_format = defaults.reasoning_format;
  TRY(read_reasoning_format(json, request.reasoning_format));
  constexpr std::array<std::string_view, 2> kObeyed = {"n", "n_cmpl"};
  TRY(read_generation_fields(json, defaults, request, kObeyed));
  TRY(read_choices(json, request));
  TRY(read_scores(json, request.scored_tokens));
  TRY(read_thinking_budget(json, "thinking_budget_tokens", request.sampling));
  TRY(read_thinking_budget(json, "reasoning_budget_tokens", request.sampling));
  TRY(read_bool(json, "reasoning_control", request.may_end_thought));
  return request;
}

Result<std::string> parse_chat_control(std::string body) {
  TRY_ASSIGN(const Json control, parse_body(std::move(body)));
  std::string id;
  std::string action;
  TRY(read_string(control, "id", id));
  TRY(read_string(control, "action", action));
  if (id.empty()) return invalid("'id' must be the id of the reply that is to change");
  if (action != "reasoning_end") return invalid("'action' must be 'reasoning_end'");
  return id;
}

std::string chat_control_reply(bool found) {
  if (found) return to_line({{"success", true}});
  return to_line({{"success", false},
                  {"message",
                   "no reply of this id is being written that was asked for with 'reasoning_control': true "
                   "and may think"}});
}

}  // namespace kvkeep::server::api
