#include "chat/chat_template.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "chat/jinja/template.h"
#include "chat/template_traits.h"

namespace kvkeep::chat {
namespace {

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

Result<jinja::Printed> ChatTemplate::print(const RenderInput& input) const {
  if (!needs_adapting(traits_, input)) return print_as_it_is(input, input.messages);
  return print_as_it_is(input, adapted_messages(traits_, input));
}

Result<jinja::Printed> ChatTemplate::print_as_it_is(const RenderInput& input, const ordered_json& messages) const {
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
  const auto add = [&](std::string_view name, const ordered_json& value, const jinja::OriginRules& rules) {
    variables.push_back({.name = name, .value = &value, .rules = rules});
  };
  add("messages", messages, chat_origins());
  add("tools", input.tools.empty() ? none : input.tools, chat_origins());
  add("documents", none, chat_origins());
  add("add_generation_prompt", generation, chat_origins());
  add("bos_token", bos_, template_origins());
  add("eos_token", eos_, template_origins());
  // As in llama-server; Llama 3.3's template has no other source for the date, and takes a day of 2024 without it.
  const bool dated = source_.find("date_string") != std::string::npos && !input.template_kwargs.contains("date_string");
  const ordered_json today = dated ? jinja::formatted_time("%d %b %Y", input.local_time_s).value_or("") : "";
  if (dated) add("date_string", today, template_origins());
  return parsed_.render({.variables = variables, .local_time_s = input.local_time_s, .limits = {}});
}

Result<std::unique_ptr<ChatTemplate>> make_chat_template(std::string_view source, TemplateTokens tokens) {
  if (source.empty()) source = kChatMl;
  auto parsed = jinja::Template::parse(source);
  if (!parsed) return Error{parsed.error().kind, parsed.error().message + " (does not parse)"};
  return std::make_unique<ChatTemplate>(std::string(source), std::move(tokens), std::move(*parsed));
}

}  // namespace kvkeep::chat
