#include "chat/chat_template.h"

#include <algorithm>
#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/jinja/template.h"
#include "chat/synthetic.h"

namespace kvkeep::chat {
namespace {

// Text of messages and tools as the template prints them; "" if it refuses them.
using Probe = std::function<std::string(nlohmann::ordered_json messages, nlohmann::ordered_json tools)>;

using nlohmann::ordered_json;

constexpr std::string_view kNeedle = "kvkeepneedle";
constexpr const char* kQuestion = "kvkeepquestion";
constexpr std::string_view kArgument = "path";  // of synthetic::call
constexpr std::string_view kValue = "kvkeeppath";

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

ordered_json typed(std::string_view text) { return ordered_json::array({{{"type", "text"}, {"text", text}}}); }

ordered_json call_with(bool object) {
  ordered_json call = synthetic::call("", synthetic::Thinking::kField);
  ordered_json& arguments = call["tool_calls"][0]["function"]["arguments"];
  if (object) arguments = ordered_json::parse(arguments.get<std::string>());
  return call;
}

class Asking {
 public:
  explicit Asking(const Probe& probe) : probe_(probe) {}

  TemplateTraits learn(std::string_view source) {
    TemplateTraits traits;
    const ordered_json user = synthetic::message("user", kNeedle);
    traits.typed_content =
        !prints(ordered_json::array({user}), nullptr, kNeedle) &&
        prints(ordered_json::array({{{"role", "user"}, {"content", typed(kNeedle)}}}), nullptr, kNeedle);
    typed_ = traits.typed_content;
    traits.system_role = prints({message("system", kNeedle), message("user", kQuestion)}, nullptr, kNeedle);
    traits.late_system = traits.system_role && prints({message("user", "x"), message("assistant", "x"),
                                                       message("system", kNeedle), message("user", kQuestion)},
                                                      nullptr, kNeedle);
    const ordered_json tools = synthetic::tools(kNeedle);
    traits.tools = prints(ordered_json::array({message("user", kQuestion)}), tools, kNeedle) ||
                   prints({message("system", "x"), message("user", kQuestion)}, tools, kNeedle);
    learn_calls(traits);
    learn_further(traits, source);
    traits.thinking_field =
        contains(source, ".thinking") || contains(source, "'thinking'") || contains(source, "\"thinking\"");
    if (traits.thinking_field) learn_thinking(traits);
    return traits;
  }

 private:
  ordered_json message(std::string_view role, std::string_view content) const {
    ordered_json made = synthetic::message(role, content);
    if (typed_) made["content"] = typed(content);
    return made;
  }

  bool prints(ordered_json messages, ordered_json tools, std::string_view words) const {
    return contains(probe_(std::move(messages), std::move(tools)), words);
  }

  // A call after a question, as the template prints it; "" if it does not print the argument.
  std::string printed_call(bool object) const {
    for (const ordered_json& tools : {ordered_json(), synthetic::tools("x")}) {
      std::string text = probe_({message("user", kQuestion), call_with(object)}, tools);
      if (contains(text, kArgument) && contains(text, kValue)) return text;
    }
    return {};
  }

  // A template that writes arguments as JSON or as tags gets objects: so the prompt has the form in which models are
  // trained to write them, and arguments that a client has written anew do not change it. A template that writes an
  // object as Python does ({'path': 'x'}) was meant for text.
  void learn_calls(TemplateTraits& traits) const {
    const std::string as_object = printed_call(true);
    const std::string as_text = printed_call(false);
    traits.tool_calls = !as_object.empty() || !as_text.empty();
    const bool python = contains(as_object, "{'path': 'kvkeeppath'}");
    traits.arguments_print = !as_object.empty();
    traits.object_arguments = !traits.tool_calls || as_text.empty() || (!as_object.empty() && !python);
    traits.tool_results =
        traits.tool_calls && (prints_result(traits, nullptr) || prints_result(traits, synthetic::tools("x")));
  }

  // A template that knows only text prints a list of parts as JSON or as Python does, types included.
  void learn_further(TemplateTraits& traits, std::string_view source) const {
    traits.text_content = prints(ordered_json::array({synthetic::message("user", kNeedle)}), nullptr, kNeedle);
    const std::string parts = probe_(ordered_json::array({{{"role", "user"}, {"content", typed(kNeedle)}}}), nullptr);
    traits.content_parts = contains(parts, kNeedle) && !contains(parts, "'type'") && !contains(parts, "\"type\"");
    ordered_json calls = call_with(traits.object_arguments);
    ordered_json second = calls["tool_calls"][0];
    second["id"] = "kvkeepid2";
    const ordered_json arguments = {{"path", kNeedle}};
    second["function"]["arguments"] = traits.object_arguments ? arguments : ordered_json(arguments.dump());
    calls["tool_calls"].push_back(std::move(second));
    for (const ordered_json& tools : {ordered_json(), synthetic::tools("x")}) {
      traits.parallel_calls |= traits.tool_calls && prints({message("user", kQuestion), calls}, tools, kNeedle);
    }
    traits.keeps_reasoning =
        prints({message("user", kQuestion), synthetic::answer(kNeedle, "x", synthetic::Thinking::kField),
                message("user", kQuestion)},
               nullptr, kNeedle);
    traits.reasoning_effort = contains(source, "reasoning_effort");
  }

  bool prints_result(const TemplateTraits& traits, const ordered_json& tools) const {
    ordered_json result = synthetic::result(kNeedle);
    if (typed_) result["content"] = typed(kNeedle);
    return prints({message("user", kQuestion), call_with(traits.object_arguments), result}, tools, kNeedle);
  }

  void learn_thinking(TemplateTraits& traits) const {
    ordered_json call = call_with(traits.object_arguments);
    call["content"] = kNeedle;
    const bool alone = !probe_({message("user", kQuestion), call}, nullptr).empty();
    call["thinking"] = "x";
    traits.refuses_thinking_beside_content = alone && probe_({message("user", kQuestion), call}, nullptr).empty();
  }

  const Probe& probe_;
  bool typed_ = false;
};

bool has_tools(const RenderInput& input) { return input.tools.is_array() && !input.tools.empty(); }

bool has_calls(const ordered_json& message) {
  return message.is_object() && message.contains("tool_calls") && message["tool_calls"].is_array();
}

bool has_role(const ordered_json& message, std::string_view role) {
  return message.is_object() && message.contains("role") && message["role"] == role;
}

std::string text_of(const ordered_json& message) {
  if (!message.contains("content") || !message["content"].is_string()) return {};
  return message["content"].get<std::string>();
}

std::string written(const ordered_json& json) {
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace);
}

void calls_into_content(ordered_json& message) {
  ordered_json calls = ordered_json::array();
  for (const ordered_json& call : message["tool_calls"]) {
    if (!call.is_object() || !call.contains("function")) continue;
    const ordered_json& function = call["function"];
    ordered_json told = {{"name", function.value("name", ordered_json())},
                         {"arguments", function.value("arguments", ordered_json())}};
    if (call.contains("id")) told["id"] = call["id"];
    calls.push_back(std::move(told));
  }
  ordered_json content = {{"tool_calls", std::move(calls)}};
  if (const std::string text = text_of(message); !text.empty()) content["content"] = text;
  message["content"] = written(content);
  message.erase("tool_calls");
}

void result_into_content(ordered_json& message) {
  ordered_json told = ordered_json::object();
  if (message.contains("name")) told["tool"] = message["name"];
  told["content"] = message.value("content", ordered_json());
  if (message.contains("tool_call_id")) told["tool_call_id"] = message["tool_call_id"];
  message = {{"role", "user"}, {"content", written({{"tool_response", std::move(told)}})}};
}

// A user message after a result joins it: such templates often insist that roles alternate.
ordered_json with_results_as_users(ordered_json messages) {
  ordered_json told = ordered_json::array();
  bool behind_result = false;
  for (ordered_json& message : messages) {
    const bool result = has_role(message, "tool");
    if (result) result_into_content(message);
    if (behind_result && has_role(message, "user")) {
      told.back()["content"] = text_of(told.back()) + '\n' + text_of(message);
    } else {
      told.push_back(std::move(message));
      behind_result = result;
    }
  }
  return told;
}

void tools_into_system(ordered_json& messages, const ordered_json& tools, bool first) {
  const std::string words = "You can call any of the following tools to satisfy the user's requests: " + written(tools);
  if (!messages.empty() && has_role(messages[0], "system")) {
    const std::string system = text_of(messages[0]);
    messages[0]["content"] = first ? words + "\n\n" + system : system + "\n\n" + words;
  } else {
    messages.insert(messages.begin(), synthetic::message("system", words));
  }
}

// Puts system messages from `first` on in front of the next user message, or makes them user messages.
ordered_json without_system(ordered_json messages, std::size_t first) {
  ordered_json result = ordered_json::array();
  std::string waiting;
  const auto flush = [&] {
    if (!waiting.empty()) result.push_back({{"role", "user"}, {"content", std::exchange(waiting, {})}});
  };
  for (ordered_json& message : messages) {
    if (result.size() >= first && has_role(message, "system")) {
      if (!waiting.empty()) waiting += '\n';
      waiting += text_of(message);
      continue;
    }
    if (has_role(message, "user") && !waiting.empty()) {
      const std::string content = text_of(message);
      message["content"] = std::exchange(waiting, {}) + (content.empty() ? "" : "\n") + content;
    }
    flush();
    result.push_back(std::move(message));
  }
  flush();
  return result;
}

// Returns true if a system message comes after another message.
bool has_late_system(const ordered_json& messages) {
  return messages.size() > 1 && std::any_of(messages.begin() + 1, messages.end(),
                                            [](const ordered_json& message) { return has_role(message, "system"); });
}

TemplateTraits learn_traits(std::string_view source, const Probe& probe) { return Asking(probe).learn(source); }

bool needs_adapting(const TemplateTraits& traits, const RenderInput& input) {
  if (traits.typed_content || (!traits.tools && has_tools(input))) return true;
  if (!traits.late_system && has_late_system(input.messages)) return true;
  return std::ranges::any_of(input.messages, [&](const ordered_json& message) {
    return (!traits.tool_calls && has_calls(message)) || (!traits.tool_results && has_role(message, "tool")) ||
           (!traits.system_role && has_role(message, "system"));
  });
}

ordered_json adapted_messages(const TemplateTraits& traits, const RenderInput& input) {
  ordered_json messages = input.messages;
  if (!traits.tools && has_tools(input)) tools_into_system(messages, input.tools, input.tools_first);
  for (ordered_json& message : messages) {
    if (!traits.tool_calls && has_calls(message)) calls_into_content(message);
  }
  if (!traits.tool_results) messages = with_results_as_users(std::move(messages));
  if (!traits.system_role) {
    messages = without_system(std::move(messages), 0);
  } else if (!traits.late_system && has_late_system(messages)) {
    messages = without_system(std::move(messages), 1);
  }
  if (!traits.typed_content) return messages;
  for (ordered_json& message : messages) {
    if (message.is_object() && message.contains("content") && message["content"].is_string()) {
      message["content"] = typed(text_of(message));
    }
  }
  return messages;
}

using nlohmann::ordered_json;

constexpr std::string_view kChatMl =
    "{%- for message in messages -%}\n"
    "  {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' -}}\n"
    "{%- endfor -%}\n"
    "{%- if add_generation_prompt -%}\n"
    "  {{- '<|im_start|>assistant\\n' -}}\n"
    "{%- endif -%}\n";

// ---- which strings of a request count as the template's own words ----
//
// Names of the chat format (role, content, parameters ...) and the roles themselves do: templates read them, and some
// write markers with them ('<|' + role + '|>'). They are checked before they come here, and spell no marker by
// themselves. Everything else in messages and tools is the client's, and never becomes a marker.

using jinja::Origin;

// Keys of the chat format, which templates look up by name.
constexpr std::array kFormatKeys = std::to_array<std::string_view>({
    "additionalProperties",
    "anyOf",
    "arguments",
    "content",
    "default",
    "description",
    "enum",
    "format",
    "function",
    "id",
    "index",
    "items",
    "name",
    "parameters",
    "properties",
    "reasoning_content",
    "required",
    "role",
    "strict",
    "text",
    "thinking",
    "title",
    "tool_call_id",
    "tool_calls",
    "type",
});
constexpr std::array kRoles =
    std::to_array<std::string_view>({"assistant", "developer", "function", "system", "tool", "user"});
constexpr std::array kTypes = std::to_array<std::string_view>({
    "array",
    "boolean",
    "function",
    "integer",
    "null",
    "number",
    "object",
    "string",
    "text",
});

template <typename List>
Origin listed(const List& list, std::string_view word) {
  return std::ranges::find(list, word) != list.end() ? Origin::kTemplate : Origin::kMessage;
}

Origin key_origin(std::string_view key) { return listed(kFormatKeys, key); }

Origin value_origin(std::string_view key, std::string_view value) {
  if (key == "role") return listed(kRoles, value);
  return key == "type" ? listed(kTypes, value) : Origin::kMessage;
}

jinja::OriginRules chat_origins() { return {key_origin, value_origin}; }

// Marks all values as the template's: they are words of the model's own vocabulary.
jinja::OriginRules template_origins() {
  return {[](std::string_view) { return Origin::kTemplate; },
          [](std::string_view, std::string_view) { return Origin::kTemplate; }};
}

}  // namespace

std::string_view default_template_source() { return kChatMl; }

ChatTemplate::ChatTemplate(std::string source, TemplateTokens tokens, jinja::Template parsed)
    : source_(std::move(source)), bos_(std::move(tokens.bos)), eos_(std::move(tokens.eos)), parsed_(std::move(parsed)) {
  traits_ = learn_traits(source_, [&](ordered_json messages, ordered_json tools) {
    RenderInput input;
    input.tools = std::move(tools);
    input.add_generation_prompt = false;
    const auto printed = print_as_it_is(input, messages);
    return printed ? printed->text : std::string();
  });
}

Result<PrintedChat> ChatTemplate::print(const RenderInput& input) const {
  if (!needs_adapting(traits_, input)) return print_as_it_is(input, input.messages);
  return print_as_it_is(input, adapted_messages(traits_, input));
}

Result<PrintedChat> ChatTemplate::print_as_it_is(const RenderInput& input, const ordered_json& messages) const {
  // Missing variables are none, not undefined, as in the tools of model authors.
  static const ordered_json none = nullptr;
  const ordered_json generation = input.add_generation_prompt;
  std::vector<std::string> names;
  std::vector<jinja::Variable> variables;
  if (input.template_kwargs.is_object()) {
    for (const auto& [name, value] : input.template_kwargs.items()) names.push_back(name);
    for (const std::string& name : names) {
      variables.push_back({.name = name, .value = &input.template_kwargs[name], .rules = jinja::all_from_messages()});
    }
  }
  const auto add = [&](std::string_view name, const ordered_json& value, const jinja::OriginRules& rules,
                       std::uint32_t first_place = 0) {
    variables.push_back({.name = name, .value = &value, .rules = rules, .first_place = first_place});
  };
  const ordered_json& tools = input.tools.empty() ? none : input.tools;
  PromptPlaces places = places_of(messages, tools);
  add("messages", messages, chat_origins(), 1);
  add("tools", tools, chat_origins(), places.first_of_tools);
  add("documents", none, chat_origins());
  add("add_generation_prompt", generation, chat_origins());
  add("bos_token", bos_, template_origins());
  add("eos_token", eos_, template_origins());
  // As in llama-server; Llama 3.3's template has no other source for the date, and takes a day of 2024 without it.
  const bool dated = source_.find("date_string") != std::string::npos && !input.template_kwargs.contains("date_string");
  const ordered_json today = dated ? jinja::formatted_time("%d %b %Y", input.local_time_s).value_or("") : "";
  if (dated) add("date_string", today, template_origins());
  TRY_ASSIGN(jinja::Printed printed,
             parsed_.render({.variables = variables, .local_time_s = input.local_time_s, .limits = {}}));
  return PrintedChat{std::move(printed), std::move(places)};
}

Result<std::unique_ptr<ChatTemplate>> make_chat_template(std::string_view source, TemplateTokens tokens) {
  if (source.empty()) source = kChatMl;
  auto parsed = jinja::Template::parse(source);
  if (!parsed) return Error{parsed.error().kind, parsed.error().message + " (does not parse)"};
  return std::make_unique<ChatTemplate>(std::string(source), std::move(tokens), std::move(*parsed));
}

}  // namespace kvkeep::chat
