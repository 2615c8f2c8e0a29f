#include "chat/chat_template.h"

#include <utility>
#include <vector>

#include "chat/jinja/formatted_time.h"
#include "chat/origins.h"
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
